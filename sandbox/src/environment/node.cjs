'use strict';
// Leads what `fetch` of Node wants to the proxy that the environment names, as NODE_USE_ENV_PROXY has newer versions do.
// Older ones know no proxy, and what cannot be reached without one looks like a broken network.

const [major, minor] = process.versions.node.split('.').map(Number);
const isKnown = major >= 24 || (major === 22 && minor >= 21);
const { https_proxy: proxy, no_proxy: spared = '' } = process.env;
const { fetch } = globalThis;

/** Connects: to this machine as ever, to all others through a tunnel. */
function connect({ hostname, port, protocol, servername }, done) {
  const [net, tls, http] = ['net', 'tls', 'http'].map((name) => require(name));
  const isPlain = protocol === 'http:';
  port ||= isPlain ? 80 : 443;
  const open = (socket) => {
    if (isPlain) return done(null, socket);
    servername ||= net.isIP(hostname) ? '' : hostname;
    const secure = tls.connect({ socket, host: hostname, servername, ALPNProtocols: ['http/1.1'] });
    secure.once('secureConnect', () => done(null, secure)).once('error', done);
  };
  const host = hostname.replace(/^\[|\]$/g, '');
  if (spared.split(',').includes(host)) {
    const socket = net.connect({ host, port, autoSelectFamily: true });
    socket.once('connect', () => open(socket)).once('error', done);
    return;
  }
  const refused = ({ headers, statusCode }) =>
    done(new Error(headers['x-ah-sandbox'] || `the proxy answered ${statusCode}`));
  const to = new URL(proxy);
  const path = `${hostname}:${port}`;
  http
    .request({ host: to.hostname, port: to.port, method: 'CONNECT', path, agent: false })
    .once('error', done)
    .once('connect', (answer, socket) => {
      if (answer.statusCode === 200) return open(socket);
      socket.destroy();
      refused(answer);
    })
    .end();
}

if (proxy && fetch && !isKnown) {
  // What fetches is loaded when it is first asked, and can be told how to connect from then on.
  const tell = async () => {
    await fetch('data:,');
    const place = Symbol.for('undici.globalDispatcher.1');
    globalThis[place] = new globalThis[place].constructor({ connect });
  };
  let told;
  globalThis.fetch = async (...request) => {
    await (told ??= tell());
    return fetch(...request);
  };
}
