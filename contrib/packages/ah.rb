# Written by `cargo xtask dist`.
class Ah < Formula
  desc "{{description}}"
  homepage "{{repository}}"
  version "{{version}}"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "{{address x86_64}}"
    sha256 "{{sha256 x86_64}}"
  end

  on_arm do
    url "{{address aarch64}}"
    sha256 "{{sha256 aarch64}}"
  end

  def install
    bin.install "ah"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/ah.bash" => "ah"
    zsh_completion.install "completions/_ah"
    fish_completion.install "completions/ah.fish"
  end

  test do
    assert_match "ah #{version}", shell_output("#{bin}/ah -V")
    system bin/"ah", "demo"
  end
end
