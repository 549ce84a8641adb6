# Lays the targets of the attacks in the working directory: a project, a home, and a folder that is neither.
set -e
secret() { [ -d "${1%/*}" ] || mkdir -p "${1%/*}"; echo "$2${2:+ }CANARY-5d1f" > "$1"; }
mkdir -p home outside/dir outside/empty
for name in .ssh/id_ed25519 .ssh/config .ssh/known_hosts .aws/credentials .aws/sso/cache/x.json .azure/accessTokens.json .config/gcloud/credentials.db \
    .config/gh/hosts.yml .config/glab-cli/config.yml .config/hub .config/rclone/rclone.conf .config/op/config .config/sops/age/keys.txt \
    .docker/config.json .kube/config .netrc .npmrc .pypirc .git-credentials .config/git/credentials .pgpass .my.cnf .mongorc.js \
    .terraform.d/credentials.tfrc.json .vault-token .gem/credentials .bundle/config .m2/settings.xml .gradle/gradle.properties \
    .nuget/NuGet/NuGet.Config .composer/auth.json .hex/hex.config .gnupg/private-keys-v1.d/a.key .password-store/a.gpg \
    .local/share/keyrings/login.keyring .mozilla/firefox/a/logins.json .config/chromium/Default/Cookies .thunderbird/a/key4.db \
    .bash_history .zsh_history .python_history .psql_history .viminfo .lesshst .local/share/fish/fish_history \
    .ah/settings.json .ah/trust.json .claude/.credentials.json .claude.json .codex/auth.json .gemini/oauth_creds.json \
    .config/opencode/opencode.json .cursor/mcp.json .local/share/opencode/auth.json .config/Code/User/settings.json .openai/key \
    .cargo/credentials .cargo/credentials.toml .julia/servers/a/auth.toml .julia/logs/repl_history.jl \
    .dotnet/corefx/cryptography/x509stores/my/a.pfx .local/share/uv/credentials/credentials.toml .config/pip/pip.conf \
    .config/configstore/a.json .huggingface/token .cache/huggingface/token .kaggle/kaggle.json .wandb/settings .databrickscfg \
    .config/doctl/config.yaml .fly/config.yml .config/netlify/config.json .oci/config .s3cfg .boto .snowsql/config .rhosts \
    Documents/taxes.txt mail/inbox .Xauthority .ICEauthority
do secret "home/$name"; done
printf '{}' > home/.ah/settings.json; printf '{"folders":{}}' > home/.ah/trust.json
printf '[registries.own]\ntoken = "CANARY-5d1f"\n' > home/.cargo/config.toml
printf '[user]\n\tname = u\n\temail = u@example.com\n' > home/.gitconfig
echo 'export A=1' > home/.bashrc; mkdir -p home/.config/autostart home/.local/bin home/.config/systemd/user home/.config/fish
for name in data kept deleted renamed moded; do secret "outside/$name"; done
secret outside/dir/inner; echo 'echo ran' > outside/script; chmod 755 outside/script
git init -q -b main outside/repo; secret outside/repo/file
git -C outside/repo add -A; git -C outside/repo -c user.name=u -c user.email=u@example.com commit -qm one
mkdir project; cd project
git init -q -b main .
mkdir -p s deep/down .claude .vscode .husky .idea sub/inner node_modules/p
echo 'CANARY-5d1f' > s/key; cp s/key s/-n; echo 'KEY=CANARY-5d1f' > .env; echo x > deep/down/other; ln -s deep/down link; ln -s /proc plink
echo apple > a.txt; echo 'int main(void) { return 0; }' > main.c; echo '{"cells":[{"cell_type":"code","source":["CANARY-5d1f"],"metadata":{},"outputs":[]}],"metadata":{},"nbformat":4,"nbformat_minor":5}' > s/book.ipynb
echo '{"a": 1}' > .claude/settings.json; echo '{}' > .vscode/tasks.json; echo 'true' > .husky/pre-commit; echo '<x/>' > .idea/workspace.xml
echo '{"a": 1}' > .mcp.json; echo 'x = 1' > .envrc
echo 'own' > node_modules/p/index.js
git init -q -b main vendor/own; echo v > vendor/own/v; git -C vendor/own add v; git -C vendor/own commit -qm v
printf 'node_modules\n*.json\n.ah\nvendor\n' > .gitignore
git add -A; git commit -qm one; echo b >> a.txt; git commit -qam two
