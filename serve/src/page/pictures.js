// Pictures that go with a prompt: chosen, pasted or dropped, and made small enough to be sent.

import { el, show } from './dom.js';

/// Longest edge, in pixels: models look at no more.
const EDGE = 1568;
/// Size up to which a file of a kind that models read is sent as it is, in bytes.
const SMALL = 200_000;
/// All pictures of a prompt, in characters of Base64. A request is at most 1 MiB.
const MOST = 900_000;
const KINDS = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/// The pictures of the next prompt, shown in `element`. `fail` is called with an error for people.
export class Pictures {
  #all = [];
  #fail;

  constructor(fail) {
    this.#fail = fail;
    this.element = el('div', { class: 'pictures' });
    this.file = el('input', { type: 'file', accept: 'image/*', multiple: true, class: 'unseen', tabindex: -1, 'aria-label': 'Pictures', change: () => {
      this.add(this.file.files);
      this.file.value = '';
    } });
    this.button = el('button', { type: 'button', class: 'quiet', click: () => this.file.click() }, 'Picture');
  }

  /// The pictures as Base64.
  get data() { return this.#all.map(address => address.slice(address.indexOf(',') + 1)); }

  clear() {
    this.#all = [];
    this.#show();
  }

  /// Adds those of the files that are pictures; returns whether there was one.
  add(files) {
    const pictures = [...files].filter(file => file.type.startsWith('image/'));
    Promise.all(pictures.map(small)).then(added => {
      const all = [...this.#all, ...added];
      if (all.reduce((sum, it) => sum + it.length, 0) > MOST) throw new Error('The pictures are too large together.');
      this.#all = all;
      this.#show();
    }).catch(error => this.#fail(error));
    return pictures.length > 0;
  }

  #show() {
    show(this.element, this.#all.map((address, at) => el('button', {
      type: 'button', class: 'quiet', title: 'Leave it out', 'aria-label': `Picture ${at + 1}: leave it out`,
      click: () => {
        this.#all.splice(at, 1);
        this.#show();
      },
    }, el('img', { alt: '', src: address }))));
  }
}

/// Returns a picture as the address of its data.
async function small(file) {
  if (KINDS.includes(file.type) && file.size <= SMALL) {
    return new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result);
      reader.onerror = () => reject(new Error('The picture cannot be read.'));
      reader.readAsDataURL(file);
    });
  }
  const picture = await createImageBitmap(file).catch(() => { throw new Error(`${file.name} is no picture that the browser reads.`); });
  const scale = Math.min(1, EDGE / Math.max(picture.width, picture.height));
  const canvas = el('canvas', { width: Math.round(picture.width * scale), height: Math.round(picture.height * scale) });
  const drawing = canvas.getContext('2d');
  // What is clear would be black.
  drawing.fillStyle = '#fff';
  drawing.fillRect(0, 0, canvas.width, canvas.height);
  drawing.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL('image/jpeg', 0.85);
}
