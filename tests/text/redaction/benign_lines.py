"""Lines without a secret that look like one, in many languages and formats; the rules are tuned on them."""

from __future__ import annotations

from typing import Final

LINES: Final = r"""
Your password was changed on Monday.
session: 2026-11-24-standup
session = claude-2026-11-24-a8f
session: chat-20261124-101500
key=release-notes-2026-11-24
The password field accepts 64 characters at most.
password: a string of at least 10 characters
password -- the user's password
--password PASSWORD   password to connect with
  -p, --password string   Password for the registry
--token TOKEN  API token (default: $GITHUB_TOKEN)
--secret-name db --region eu-west-1
Usage: login [-u user] [-p password] host
The password for the Wi-Fi is on the fridge.
password hashing uses argon2id with 64 MiB
Token: see 1Password, item "staging"
Secrets are mounted under /run/secrets.
secret_version = "latest"
secret_id = aws_secretsmanager_secret.db.id
secret_key_ref = { name = "db", key = "password" }
"secret": { "type": "string", "writeOnly": true }
"tokens": [101, 7592, 2088, 102]
"tokenizer_class": "LlamaTokenizerFast",
token_ids = tokenizer.encode(text)
num_tokens = len(encoding.encode(string))
for token in tokens: counts[token] += 1
case TOKEN_STRING: return parse_string(token);
#define TOKEN_LEFT_BRACE 123
enum TokenType { IDENTIFIER, NUMBER, STRING }
assertEquals("token", parser.next().text());
expect(screen.getByLabelText('Password')).toBeInTheDocument()
cy.get('[data-testid="password"]').type(password)
password_field.send_keys(password)
driver.find_element(By.ID, "password")
form.password.errors
request.form.get("password")
params.require(:user).permit(:email, :password, :password_confirmation)
has_secure_password
validates :password, length: { minimum: 8 }
bcrypt.hashpw(password.encode(), bcrypt.gensalt())
PasswordEncoder encoder = new BCryptPasswordEncoder();
UsernamePasswordAuthenticationToken authentication =
http.csrf(AbstractHttpConfigurer::disable)
var token = await HttpContext.GetTokenAsync("access_token");
services.AddAuthentication(JwtBearerDefaults.AuthenticationScheme)
let token = req.headers().get("authorization").and_then(|v| v.to_str().ok());
pub struct ApiKey(String);
type Token struct { Kind int; Text string }
token, err := jwt.Parse(raw, keyFunc)
if token == "" { return errNoToken }
password := flag.String("password", "", "database password")
fmt.Print("Password: ")
read -s -p "Password: " PASSWORD
echo "$PASSWORD" | docker login -u "$USER" --password-stdin
echo "done" | tee log.txt
export PGPASSWORD=$(cat /run/secrets/pg)
export AWS_SECRET_ACCESS_KEY=$(aws configure get aws_secret_access_key)
aws secretsmanager get-secret-value --secret-id prod/db --query SecretString
az keyvault secret show --name db --vault-name v
mysql --defaults-file=/root/.my.cnf -e "show databases"
mysqldump -u root -p shop > shop.sql
mysqladmin -u root -p status
zip -r archive.zip folder -x "*.git*"
unzip -p archive.zip file.txt
7z a -tzip out.zip in
tar -xpf backup.tar
ssh -i ~/.ssh/id_ed25519 -p 2222 ada@example.com
ldapsearch -x -H ldap://ldap.example.com -D cn=admin -W
mongosh "mongodb://localhost:27017/app"
mongodump --db shop --out /backup
net use Z: \\nas\share
curl -X POST -d '{"query": "tokens"}' https://api.example.com/v1/search
curl -u "$API_KEY:" https://api.example.com/v1/charges
wget -qO- https://example.com/key.asc | sudo apt-key add -
gpg --recv-keys 9DC858229FC7DD38854AE2D88D81803C0EBFCD88
apt-key fingerprint 0EBFCD88
ssh-keygen -t ed25519 -C "ada@example.com"
The key is 'user.name', its value a string.
key = lambda item: item.score
sorted(items, key=lambda each: each.created_at)
keys = sorted(mapping.keys())
KEY `idx_users_email` (`email`),
PRIMARY KEY (id), FOREIGN KEY (user_id) REFERENCES users(id)
{ "key": "value", "keys": ["a", "b"] }
"keyCode": 13, "which": 13
<key>CFBundleIdentifier</key><string>com.example.app</string>
keymap.set("n", "<leader>ff", builtin.find_files)
objectKey: uploads/2026/05/photo-0001.jpeg
Key: alt+shift+f, Command: editor.action.formatDocument
s3://bucket/key/part-00000-3c1f7d2a-9b1e-4c55-8d0f-2f6a7b8c9d0e-c000.snappy.parquet
gs://demo-bucket/models/checkpoint-12000/model.safetensors
"_id": "507f1f77bcf86cd799439011"
"etag": "\"686897696a7c876b7e\""
"sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e"
"node_id": "MDEwOlJlcG9zaXRvcnkxMjk2MjY5"
"avatar_url": "https://avatars.example.com/u/583231?v=4"
"cursor": "Y3Vyc29yOnYyOpHOAAoUVQ=="
"nextPageToken": "CAUQAA"
next_page_token=abc
"continuation": "page-2"
uid=1000(ada) gid=1000(ada) groups=1000(ada),27(sudo)
session.commit()
session = Session(engine)
SESSION_COOKIE_SECURE = True
SESSION_COOKIE_NAME = "sessionid"
sessionStorage.getItem("cart")
sess = tf.compat.v1.Session()
set-cookie: locale=en-US; Path=/; SameSite=Lax
Cookie: _ga=GA1.2.1234567890.1700000000; theme=light
csrf_exempt = True
{% csrf_token %}
authenticity_token is missing
author = "Ada Lovelace"
authors: [ "Ada", "Grace" ]
authority: https://login.example.com/common
auth_backend: django.contrib.auth.backends.ModelBackend
auth_url = "https://keystone.example.com:5000/v3"
auth: { user: process.env.SMTP_USER, pass: process.env.SMTP_PASS }
pass: process.env.SMTP_PASS,
smtp_pass = config["smtp"]["pass"]
pass = true; fail = false
pass rate: 98.7 %
Tests: 12 passed, 0 failed, 12 total
PASS src/login.test.ts (5.123 s)
--- PASS: TestLogin (0.02s)
passed in 3.21s
def process(self): pass
try: import tomllib; except ImportError: pass
bypass: false
compass: north-west
passenger: Ada Lovelace
passport_number: required
passive: true
pin: 1.2.3
pinned: numpy==1.26.4
pin to version 4.2
GPIO pin 18 is the PWM output
The code is: 200 means OK
code=404 status=not_found
"code": "invalid_request_error"
error_code=AADSTS50011
status code: 503, request id: 3c1f7d2a-9b1e-4c55-8d0f-2f6a7b8c9d0e
postal code: 10115, country code: +49
exit code: 137 (OOMKilled)
seed = 42
torch.manual_seed(1234567890)
random_seed: 20260501
salt = os.urandom(16)
salt: 5 g, pepper: 2 g
signature = inspect.signature(func)
signature: bytes = signer.sign(data)
Signature: (self, key: str, value: Any) -> None
jwt = JWTManager(app)
jwt.decode(token, public_key, algorithms=["RS256"])
otp = pyotp.random_base32()
The OTP expires after 30 seconds.
webhook: https://example.com/hooks/deploy
webhook_url: ${SLACK_WEBHOOK_URL}
hooks.slack.com must be reachable from the cluster.
license = "Apache-2.0"
license: MIT
License key: required for the enterprise edition
SPDX-License-Identifier: GPL-3.0-or-later
patch: 1234abcd..5678ef90
path=/usr/lib/python3.11/site-packages/pip/_internal/cli/main.py
pattern = r"(?P<token>[A-Za-z0-9_-]{20,})"
re.compile(r"password\s*=\s*(\S+)")
grep -rn "password" src/ | head
sed -i 's/password=.*/password=/' app.conf
rg --files-with-matches 'api[_-]?key'
- [ ] rotate the tokens of the build
* fix: do not log the access token (#1234)
feat(auth): refresh tokens before they expire
chore(deps): bump golang.org/x/crypto from 0.17.0 to 0.31.0
docs: how to set a password
TODO: read the secret from Vault instead
// NOTE: token is only valid for an hour
/* password must not be logged */
# password = "secret"
-- password is stored hashed
'''Raises: InvalidToken: the token has expired.'''
:param password: the password of the user
@param token the access token
@param {string} password - The password.
password (str): Password of the account.
| password | string | yes | Password of the user |
| token | string | Access token of the session |
| Option | Default | Meaning |
<dt>Password</dt><dd>The password of the user.</dd>
<td>Token</td><td>Used once</td>
<option value="secret">Secret</option>
<a href="/password/new">Forgot password?</a>
<TextField label="Password" type="password" required />
<Trans i18nKey="auth.password.hint">Use a long password</Trans>
placeholder="Password" aria-label="Password"
aria-describedby="passwordHelpBlock"
.password-input { border: 1px solid #ccc; }
.token.keyword { color: #07a; }
--color-token: #1a2b3c;
font-src https://fonts.gstatic.com/s/roboto/v30/KFOmCnqEu92Fr1Mu4mxK.woff2
@import url("https://fonts.example.com/css2?family=Inter:wght@400;700&display=swap");
e.exports=JSON.parse('{"name":"elliptic","version":"6.5.4"}')
!function(t){var e={};function n(r){if(e[r])return e[r].exports}}([]);
a.password=b.password,c.token=d(e),f=g.key||"id";
const P=e=>({type:"SET_TOKEN",payload:e}),K="user_key";
webpackChunk_N_E.push([[405],{8312:function(e,t,n){(window.__NEXT_P=window.__NEXT_P||[])}}])
Die Passwörter werden nie im Klartext gespeichert.
Bitte das Passwort alle 90 Tage ändern.
Das Kennwort ist abgelaufen.
Neues Passwort: mindestens 12 Zeichen
La contraseña es incorrecta.
Introduzca su contraseña.
La clave es practicar todos los días.
La clave primaria es el id.
Le mot de passe doit contenir huit caractères.
Le mot de passe est obligatoire.
Saisissez votre mot de passe.
La password è errata.
A senha é obrigatória.
Het wachtwoord is onjuist.
Hasło jest wymagane.
Hasło jest za krótkie.
Пароль не совпадает.
Введите пароль.
密码错误
密码长度至少为8位
请输入密码
パスワードが間違っています。
パスワードは8文字以上です。
비밀번호를 입력하세요.
Şifre gerekli.
Lösenordet är fel.
Adgangskoden er forkert.
Passordet er for kort.
Salasana on väärä.
%PDF-1.7 and %%EOF frame a document.
100%25 of the space is used, 50%20off
https://example.com/search?q=a%20b%2Fc&sort=new%2Dest
C:\Users\ada\AppData\Local\Programs\Python\Python311\python.exe
\\server\share\folder\file.txt
re.sub(r"\x1b\[[0-9;]*m", "", line)
"\u00e4\u00f6\u00fc\u00df are umlauts"
"caf\xe9" == "café"
&lt;b&gt;bold&lt;/b&gt; &amp; &quot;quoted&quot;
printf '\033[1m%s\033[0m\n' "bold"
00000000: 7f45 4c46 0201 0100 0000 0000 0000 0000  .ELF............
48 65 6c 6c 6f 20 77 6f 72 6c 64 2c 20 61 6e 64 20 6d 6f 72 65
aGVsbG8gd29ybGQsIHRoaXMgaXMganVzdCBhIHRleHQ=
eyJ2ZXJzaW9uIjozLCJmaWxlIjoiYS5qcyIsInNvdXJjZXMiOltdfQ==
MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ
Ausgaben: 1.234,56 €, Datum: 01.02.2026, Uhrzeit: 14:30
tel:+493012345678;ext=12
192.168.1.10:5432:tcp open
10.0.0.1:8080:10.0.0.2:80:80
volumes: ["./data:/var/lib/postgresql/data:rw"]
ports: ["127.0.0.1:5432:5432"]
00:1a:2b:3c:4d:5e is the MAC of eth0
fe80::1a2b:3cff:fe4d:5e6f%eth0
12:34:56 the login of ada failed
user: ada / role: admin
log in with GitHub / GitLab
Sign in with your company account.
creds: see the wiki
credentials: none
sub_1MowQVLkdIwHu7ixeRlqHVzs is the subscription
price_1MoBy5LkdIwHu7ixZhnattbh
file-9wKDAqqPbmgtPwBgLxRS3h is the upload
asst_Zi31gyrY5kJZ9mZkGNqXc4Yh runs thread_v7V4csrNOxtNmgcwGg496Smx
resp_67cb61fa3a448190bcf2c42d96f0d1a8
run-2026-05-01-1200-eu-west-1a
k8s-deployment-7d4b9c6f5d-x2x9z
app-frontend-5b8c7d9f4c-abcde 1/1 Running
sha1-VldK/deR9UqOmyeFwFgqLSYseek=
"resolved": "https://files.example.org/lodash/-/lodash-4.17.21.tgz",
"_resolved": "https://files.example.org/ms/-/ms-2.0.0.tgz"
sha512-LEyx4aLEC3x6T0UguF6YILf+ntvmOaWFVfENmIW0E9H09vKlLDGelMjjSm0jkDHALj8A8quZ/HapKNigzwge+Q==
"@babel/plugin-transform-template-literals": "7.24.1"
com.example.app.authentication.TokenAuthenticationFilter
org.springframework.security.crypto.password.PasswordEncoder
java.lang.IllegalStateException: Token expired at 2026-05-01T10:00:00Z
at AuthService.verifyToken (/app/dist/auth.service.js:42:15)
  File "/srv/app/auth/token.py", line 42, in refresh_token
panic: runtime error: invalid memory address [signal SIGSEGV addr=0x0 pc=0x6a3f2c]
secret = get_secret("db/prod")
session 5f0c4a52-9d3e-4b1a-8c7f-2e6d90b1a3c4 has 14 turns
session: 5f0c4a52-9d3e-4b1a-8c7f-2e6d90b1a3c4
"sessionId": "5f0c4a52-9d3e-4b1a-8c7f-2e6d90b1a3c4"
session 7f3a9c01d2e4b5f6a7988776655443322 resumed
partition_key: tenant_id#2026-11
idempotency-key: save-5f0c4a52-9d3e-4b1a-8c7f-2e6d90b1a3c4
The idempotency key for this deploy is 5f0c4a52-9d3e-4b1a-8c7f-2e6d90b1a3c4
The key of the customer is 5f0c4a52-9d3e-4b1a-8c7f-2e6d90b1a3c4
The key commit is 9f2c1e7ab04d5c88e1f3a6b7d9204e5f6a1b3c8d
The key file checksum is 9f2c1e7ab04d5c88e1f3a6b7d9204e5f6a1b3c8d11223344556677889900aabb
cache key of the layer: 9f2c1e7ab04d5c88e1f3a6b7d9204e5f6a1b3c8d11223344556677889900aabb
The tokenizer is BPE-50257-gpt2-large-vocab-merges
Use argon2id as the password hash.
Use customer-Number2 as the sort key.
Use tenant#Id as the partition key for orders.
docker run -u 1000 -p 8080:80 nginx
cargo run -u x -p my-crate2
echo "hello" | tee --stdin
echo "$TOKEN" | docker login --password-stdin
password 2 characters too short
The password is currently SHA-512 hashed
password: this must have been long
The community Discord2024 event
pw to the max: 100%
Kata sandi adalah wajib
access code: see the wiki
https://mastodon.example/@gargron/1234567890123456
pip install git+https://github.com/acme/repo@9f2c1e7ab04d5c88e1f3a6b7d9204e5f6a1b3c8d
git@github.com:acme/Repo2.git
git clone bob@git.corp.example:Tools/Build2024
scp bob@host.example.com:Backup2024.Tar .
user@host.example.com:8080
rsync -a me@nas.local:Photos2024 .
mail paula@example.com: Meeting2 is moved
contact paula@example.com / Deniz
paula@example.com / +49 170 1234567
npm i @scope/pkg.name:Latest2
@angular.core.io:Module2
card game rules: 52 cards
The card 4111111111111112 was refused
business card printed 2026-11-25
Graphics card RTX 4090 needs 850 W
visa appointment 2026-11-25 10:30
SIM card 8949 0200 0012 3456 789
library card 20261125
memory card 128 GB
sd card /dev/mmcblk0p1 512 sectors 2000000
order 4111 2222 3333 4444
cvc is a coefficient
CVC 2024 conference in Berlin
PIN 13 drives the LED
Pin 1234 is not a pin of the header
GPIO PIN 17
PIN code field
PIN of 4 digits
the combination is 3-2-1
safe combination of drugs
lock combination: unknown
Karte 1:50000 Blatt 4711
credentials admin/users.ts
credentials user/settings
credentials: admin/dashboard2
creds root/.ssh
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQDQ0bW5k9T2xXJH3cVfR8LwYpEo7uGmNsKqZ4iAtUhB1nPdMvCxS6gIyFrOeWj ci@runner
{"next_cursor": "ZGF0ZV8yMDI2_a81kQzpL0xRt7VbN3mWc5YdHs9Fg2Jx"}
"nextPageToken": "CAUQAA_8hGq2LmT5vXz0RbN7cWk4YpJd"
"next_page_token": "~!!~AI9FV7R_f3GhK8mQ2LxTz6VbN0cWp5YdRsJ4HtUe7XqB"
"pagination": {"after": "Q1VSX_b4NcX7kQ2mZ9tR5wV1yH8pLs3DgJ0f"}
"id": "wf_8hGq2LmT5vXz0RbN7cWk4YpJ", "status": "done"
_acme-challenge TXT "Kp_9fQ2mZ7tR4wV1yH8pLs3DgJ0fXbN6cTk5YhUe8Gq"
the fingerprint WyQ7fK_9aQ2mZ7tR4wV1yH8pLs3DgJ0f of the leaf
job_8hGq2LmT5vXz0RbN7cWk4YpJ finished in 3.2 s
password_policy: minimum-12-characters
"password": "required|string|min:12"
keytool -list -keystore cacerts -storepass changeit
NEXT_PUBLIC_POSTHOG_KEY=phc_8hGq2LmT5vXz0RbN7cWk4YpJd3FsAe6Ux9
STRIPE_KEY=pk_live_8hGq2LmT5vXz0RbN7cWk4YpJ
recaptcha site key 6LdRcW8pAAAAAH2mZ9tR5wV1yH8pLs3DgJ0fXbN6 is public
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==
key: npm-Linux-9f2c1e7ab04d5c88e1f3a6b7d9204e5f6a1b3c8d9f2c1e7ab04d5c88e1f3a6b7
compass: north-west-2
bypass = "rule-7-off"
INSERT INTO users (name, password_hash) VALUES ('kim', 'A9f2c1e7ab04d5c88e1f')
jwt.sign(payload, privateKey, options)
hmac.new(key, body, 'sha256')
openssl s_client -connect example.com:443 -k
master password must have at least 12 characters
password column          = account_password_2
passphrase: min 12 characters with 2 digits
gpg: key 3AA5C34371567BD2 "Kim <kim@acme.example>" imported
certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUQ0bW5k9T2xXJH3cVfR8LwYpEo7
sync_token: s72594_4483_1934_a81kQzpL0xRt7VbN3mWc
"nextSyncToken": "CPDAlvWDx70CEPDAlvWDx70CGAU="
https://graph.example.com/v1.0/delta?$deltatoken=a81kQzpL0xRt7VbN3mWc5YdHs9Fg2Jx
deployment dpl_8hGq2LmT5vXz0RbN7cWk4YpJd3Fs is ready
project prj_8hGq2LmT5vXz0RbN7cWk4YpJd3Fs on team_8hGq2LmT5vXz0RbN7cWk4YpJ
wf_run_8hGq2LmT5vXz0RbN7cWk failed at step 3
function fn-8hGq2LmT5vXz0RbN7cWk4Y
keyring.get_password("acme", "kim-2")
INSERT INTO keywords (id, keyword) VALUES (7, 'ISO-27001#A.9');
password="at least 8 characters"
license: GPL-3.0-or-later WITH Classpath-exception-2.0
ipsec.secrets: 10.0.0.1
the wifi is 2.4 GHz / 5 GHz
password={Secret}
"scopes": ["tokens:read", "secrets:write:v2"]
verifying key 9f2c1e7ab04d5c88e1f3a6b7d9204e5f6a1b3c8d9f2c1e7ab04d5c88e1f3a6b7
ssh host key SHA256:yQ7fKx9aQ2mZ7tR4wV1yH8pLs3DgJ0fXbN6cTk5YhUe changed
The passphrase is set in the config.
the master password is never stored on disk
passphrase: see the team wiki page
The recovery phrase is written on paper in the safe
The passcode screen crashes on iOS17.4
pass: 12/12, fail: 0
La clave primaria es id_pedido
パスワードは毎月変更します
DB_PASS ?= $(shell cat pass)
ssn column is varchar(11), format 999-99-9999
String secretId = "prod/payments/stripe-v2";
keyId: 2f1c8a7e-4b3d-4c2a-9e8f-7a6b5c4d3e2f
""".strip("\n").splitlines()
