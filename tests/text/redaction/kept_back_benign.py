"""Lines without a secret that no rule was tuned on, to measure what the rules redact wrongly.

Written before the rules it measures and not changed with them, like `kept_back`.
"""
# ruff: noqa: E501

from __future__ import annotations

from typing import Final

LINES: Final = r"""
AKIAIOSFODNN7EXAMPLE is the access key id in the documentation of AWS.
aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
aws configure set aws_access_key_id AKIAIOSFODNN7EXAMPLE
export API_KEY=<your-api-key>
export API_KEY="your_api_key_here"
API_KEY=xxxxxxxxxxxxxxxxxxxxxxxx
api_key: "REPLACE_ME"
password: ********
password=changeme
password: "${POSTGRES_PASSWORD:?must be set}"
POSTGRES_PASSWORD: ${POSTGRES_PASSWORD}
password = os.environ["DB_PASSWORD"]
password = os.environ.get("DB_PASSWORD", "")
password = get_password()
password = getpass("Password: ")
password = input("Enter your password: ")
password: str
password: Optional[str] = None
password: string;
private password: String = ""
password = None
password = null
"password": null,
"password": "",
"password": "string",
"password": {"type": "string", "minLength": 8},
password = models.CharField(max_length=128)
password = forms.CharField(widget=forms.PasswordInput)
password = Column(String(255), nullable=False)
password VARCHAR(255) NOT NULL,
if password != confirm_password:
if (password.length < 8) return "too short";
assert user.password == hashed
self.password = password
this.token = token;
const { token } = await response.json();
token = request.headers.get("Authorization")
token: Annotated[str, Depends(oauth2_scheme)]
token = jwt.encode(payload, key, algorithm="HS256")
let secret = std::env::var("SECRET")?;
secret := os.Getenv("CLIENT_SECRET")
String secret = System.getenv("SECRET");
var secret = builder.Configuration["ClientSecret"];
secret = ENV.fetch("SECRET_KEY_BASE")
$password = $_POST['password'];
$token = bin2hex(random_bytes(32));
api_key = var.api_key
password = data.aws_secretsmanager_secret_version.db.secret_string
password = random_password.db.result
secretName: db-credentials
secretKeyRef:
          key: password
secret: ${{ secrets.GITHUB_TOKEN }}
token: ${{ github.token }}
password: !vault |
password: {{ vault_db_password }}
password: "{{ lookup('env', 'DB_PASSWORD') }}"
The password is required.
The password is wrong, try again.
Your password is too short; use at least 12 characters.
The password is stored as a bcrypt hash.
The password must contain a letter and a digit.
The password is checked against a list of leaked ones.
Password: required
Password: the password of the database user (optional)
Password reset: click the link in the mail.
Passwords are never logged.
Password policy: 12 characters, rotated yearly
Enter the password and press return.
What is the password for the guest network?
We store no passwords, only hashes.
Das Passwort ist falsch.
Das Passwort ist nicht gesetzt, bitte den Administrator fragen.
Passwort: mindestens zwölf Zeichen
Passwort vergessen? Hier klicken.
La contraseña es obligatoria.
Contraseña: mínimo ocho caracteres
Le mot de passe est incorrect.
Mot de passe oublié ?
La password è obbligatoria.
A senha é necessária para continuar.
Het wachtwoord is verlopen.
Пароль: обязательное поле
密码不能为空
パスワードを入力してください。
The secret is to cook it slowly.
The secret of good documentation is examples.
The token is expired, so the client asks for another one.
The token is sent in the Authorization header.
Tokens: 4096 in, 812 out
tokens_per_second=123.45 total_tokens=8192
token_type=bearer
"token_type": "Bearer", "expires_in": 3600
access_token expires after 3600 seconds
grant_type=refresh_token
Authorization: Bearer <token>
Authorization: Bearer YOUR_ACCESS_TOKEN
Authorization: Basic <credentials>
Authorization: Bearer {{ token }}
curl -H "Authorization: Bearer $(gcloud auth print-access-token)" https://example.googleapis.com
curl -u username:password https://example.com
curl -u user https://example.com
curl -sSf https://sh.example.com | sh -s -- -y
mysql -u root -p
mysql -u root -p shop < dump.sql
mysql -h db.example.com -P 3306 -u app -p
psql -h localhost -p 5432 -U postgres -d app
psql postgresql://user:password@localhost/db
postgres://USER:PASSWORD@HOST:5432/DATABASE
postgres://${DB_USER}:${DB_PASS}@${DB_HOST}/app
redis-cli -h localhost -p 6379 ping
redis-cli -a "$REDIS_PASSWORD" ping
PGPASSWORD="$PGPASS" psql -h db app
docker login -u "$USER" --password-stdin
docker run -p 8080:80 -e POSTGRES_PASSWORD_FILE=/run/secrets/pg postgres:16
docker run -p 127.0.0.1:5432:5432 --name pg postgres
ssh -p 2222 deploy@host.example.com
mkdir -p /var/lib/agentctx/data
cp -p source target
sshpass -e ssh user@host
openssl rand -hex 32
openssl req -x509 -newkey rsa:4096 -keyout key.pem -out cert.pem -days 365 -nodes
kubectl get secret db -o jsonpath='{.data.password}' | base64 -d
kubectl create secret generic db --from-file=password=./password.txt
gcloud secrets versions access latest --secret=db-password
vault kv get -field=password secret/app/db
op read "op://Private/db/password"
gh auth token
git config --global credential.helper store
git clone git@github.com:octo/repo.git
git clone https://github.com/octo/repo.git
https://user@bitbucket.example.com/scm/p/r.git
https://example.com/reset?token=
https://example.com/login?next=/account/password
https://www.example.com/watch?v=dQw4w9WgXcQ&list=PLrAXtmErZgOeiKm4sgNOknGvNjby9efdf
https://docs.google.com/spreadsheets/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms/edit#gid=0
https://drive.google.com/file/d/1A2b3C4d5E6f7G8h9I0jKlMnOpQrStUvW/view?usp=sharing
https://www.figma.com/file/aBcDeFgHiJkLmNoPqRsTuV/Design?node-id=12-345
https://open.spotify.com/track/6rqhFgbbKwnb9MLmUQDhG6?si=a1b2c3d4e5f6a7b8
https://github.com/octo/repo/commit/9fceb02d0ae598e95dc970b74767f19372d61af8
https://github.com/octo/repo/blob/9fceb02d0ae598e95dc970b74767f19372d61af8/src/auth/token.py#L10-L20
https://cdn.example.com/assets/index-BX3kd92jQ.js?v=20260102
https://images.example.com/photo-1518791841217-8f162f1e1131?ixlib=rb-1.2.1&w=1000&q=80
https://arxiv.org/abs/2401.12345v2
ETag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
etag: W/"5f3a-Wm9vYmFyMTIzNDU2Nzg5MGFiY2RlZg"
x-request-id: 7f3a9c52-1b7d-4c43-9f2a-0d6e5b8c1a23
traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
X-Amzn-Trace-Id: Root=1-67891233-abcdef012345678912345678
cf-ray: 8c5f1a2b3c4d5e6f-FRA
Set-Cookie: theme=dark; Path=/; Max-Age=31536000
Cookie: lang=en; consent=accepted; theme=dark
Set-Cookie: sessionid=; expires=Thu, 01 Jan 1970 00:00:00 GMT
Content-Security-Policy: script-src 'sha256-B2yPHKaXnvFWtRChIbabYmUBFZdVfKKXHbWtWidDVF8='
integrity="sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC"
"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg==",
resolution: {integrity: sha512-eZ4uYnYqJ5w0NQeVfH6pJhV1PzqkAG3oRkzcVtYm2pV7t0a9T3Wm3v1gk8p6bT0c9kQmXh5u2VYw==}
github.com/stretchr/testify v1.9.0 h1:HtqpIVDClZ4nwg75+f6Lvsy/wHu+3BoSGCbBAcpTsTg=
checksum = "c08302e8fa335b151b788c775ff56e7a03ae64ff85c548ee820fecb70356e85a"
sha256 = "0sk5k2p7wm3v1gk8p6bt0c9kqmxh5u2vyw1y3n8lz4d6f7r9s0aq"
hash = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
/nix/store/3n58xw4373jp0ljirf06d8077j15pc4j-glibc-2.39-52/lib/libc.so.6
d41d8cd98f00b204e9800998ecf8427e  empty.txt
e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  -
Digest: sha256:2d4e459f4ecb5329407ae3e47cbc107a2fbace221354ca75960af4c047b3cb13
image: ghcr.io/octo/app@sha256:7173b809ca12ec5dee4506cd86be934c4596dd234ee82c0662eac04a8c2c71dc
Successfully built 3f7c1b2a9d8e
index 7c9a1f2..b83d0e4 100644
@@ -12,7 +12,9 @@ def load_token(path: Path) -> Token:
-    token = read(path)
+    token = read_token(path, encoding="utf-8")
Author: Ada Example <ada@example.com>
Signed-off-by: Ada Example <ada@example.com>
Co-authored-by: octo[bot] <1234567+octo[bot]@users.noreply.example.com>
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx1bmNoIGlzIHNlcnZlZCBhdCBub29uIHRvZGF5IQ ada@laptop
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7vbqajDhA+17Ed8u0GzW1Vn4lF0bC9p3k2m ada@desk
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo
-----BEGIN CERTIFICATE REQUEST-----
age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p is the recipient.
RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 is the public key of the release.
SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8 github.com (RSA)
PublicKey = 8jW2z3Qk0hX1vR5mT9nB4cL6pF7sD0gA1eU3yI5oK2w=
pk_test_TYooMQauvdEDq54NiTphI7jx is Stripe's publishable key.
fingerprint: 4A:9C:2B:11:7F:0E:DD:31:6C:55:88:A1:02:9E:F4:3B:C7:61:0D:2F
gpg: key 0xDEADBEEFCAFEBABE: public key "Ada" imported
id: 01JC8Z5V9T3K7M2N4P6Q8R0S1T
"id": "chatcmpl-9xJkT3mLwQpRsVbN2cYdHfGzA5uE",
"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message"
"tool_use_id": "toolu_01A09q90qw90lq917835lq9"
"request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"
"customer": "cus_NffrFeUfNV2Hib", "invoice": "in_1MtHbELkdIwHu7ixl4OzzPMv"
"object": "payment_intent", "id": "pi_3MtwBwLkdIwHu7ix28a3tqPa"
arn:aws:iam::123456789012:role/deploy-agent
subscription 00000000-0000-0000-0000-000000000000
i-0abcd1234efgh5678 is the instance, vol-049df61146c4d7901 its volume
projects/demo-123456/locations/europe-west1/keyRings/main/cryptoKeys/db
service-account@demo-123456.iam.gserviceaccount.com
Server=localhost;Database=app;Trusted_Connection=True;
Driver={ODBC Driver 18 for SQL Server};Server=db;UID=app;PWD=${PWD}
PWD=/home/ada/projects/app
OLDPWD=/tmp
pwd: /usr/src/app
HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
KEYCLOAK_ADMIN=admin KC_HTTP_PORT=8080
SECRET_KEY_FILE=/run/secrets/django
SSH_AUTH_SOCK=/run/user/1000/keyring/ssh
DOCKER_AUTH_CONFIG=~/.docker/config.json
AUTH_MODE=oidc AUTH_ISSUER=https://login.example.com/realms/main
TOKEN_URL=https://login.example.com/oauth/token
key=value; sort-key=name; primary_key=True
"key": "user.profile.title", "value": "Profile"
primary_key: id, foreign_key: user_id
keyboard: de-latin1-nodeadkeys
public_key: ./certs/app.pub
private_key_path: /etc/ssl/private/server.key
private_key = rsa.generate_private_key(public_exponent=65537, key_size=4096)
encryption_key_id = alias/aws/s3
The API key is in the vault under "search/prod".
Rotate the API keys every 90 days.
API key: see the vault
auth: none
auth: oauth2
"auth": {"type": "basic"}
auth_method = scram-sha-256
authToken: process.env.NPM_TOKEN,
//registry.example.com/:_authToken=${NPM_TOKEN}
"credentials": "include",
fetch(url, { credentials: "same-origin" })
credential_source: Ec2InstanceMetadata
certificate-authority: /etc/kubernetes/pki/ca.crt
client-certificate: /home/ada/.minikube/profiles/minikube/client.crt
client-key: /home/ada/.minikube/profiles/minikube/client.key
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
background: url("data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=")
//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbImEudHMiXX0=
!function(e,t){"object"==typeof exports?module.exports=t():e.tok=t()}(this,function(){return 1});
var a=function(e){return e.password||e.pass},b={token:a,secret:null};function c(d){return d?a(d):b.token}
function(){e.exports={passwordInput:"_2kXyZ3abc passwordInput__x9Qw1"}}
.Button_root__3kXyZ9 { color: var(--key-color); }
<input type="password" name="password" autocomplete="current-password">
<label for="password">Password</label>
<password-field label="Password" required></password-field>
<Password>$(DbPassword)</Password>
<div data-key="b7f2c9" class="token keyword">secret</div>
msgid "Password: %s"
errors.password.blank=Password must not be blank
error.password=Ungültiges Passwort
label.password=Password
labels: { password: "Password", token: "Access token", secret: "Shared secret" }
"passwordPlaceholder": "Enter your password",
i18n.t("login.password_forgotten")
TypeError: 'NoneType' object has no attribute 'token'
KeyError: 'secret_key'
fatal: Authentication failed for 'https://example.com/repo.git/'
sshd[2311]: Failed password for invalid user admin from 203.0.113.9 port 52144 ssh2
sshd[2311]: Accepted publickey for ada from 203.0.113.9 port 52144 ssh2: ED25519 SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8
FATAL:  password authentication failed for user "postgres"
WARNING: secret 'db-credentials' was not found in namespace 'prod'
2026-05-04 10:11:12,123 INFO auth.token Refreshed token for user 4711 in 35 ms
level=info ts=2026-05-04T10:11:12Z msg="token refreshed" expires=2026-05-04T11:11:12Z
$2b$12$ is the prefix of bcrypt, $6$ of SHA-512.
Call +49 151 23456789 or +1 (555) 010-9999.
IBAN DE89370400440532013000, BIC COBADEFFXXX
ISBN 978-0-13-468599-1; DOI 10.1145/3292500.3330701
Version 1.24.3-rc.2+build.4711, released 2026-04-01
numpy==1.26.4 pandas>=2.2,<3 scikit-learn~=1.4.2
"typescript": "^5.4.5", "vite": "~5.2.11"
FROM python:3.11.9-slim-bookworm@sha256:fc39d2e68b554c3f0a5cb8a776280c0b3d73b4c04b83dbade835e2a171ca27ef
0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed is the address of the contract.
bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq
txid 4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b
QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKs5Ez
ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi
GET /api/v1/users/4711?include=roles&page=2 HTTP/1.1
SELECT * FROM users WHERE token_hash = $1 AND expires_at > now();
UPDATE users SET password = crypt($1, gen_salt('bf')) WHERE id = $2;
CREATE USER app WITH PASSWORD :'password';
IDENTIFIED BY '<password>'
GRANT SELECT ON secrets TO auditor;
def set_password(self, raw_password: str) -> None:
func NewClient(token string, opts ...Option) (*Client, error) {
fn authenticate(user: &str, password: &str) -> Result<Token, Error> {
public void setPassword(String password) { this.password = password; }
user.setPassword(passwordEncoder.encode(request.getPassword()));
type Credentials struct { Username, Password string }
interface LoginForm { email: string; password: string; remember?: boolean }
val password: String by lazy { keystore.load("db") }
@Value("${db.password}") private String password;
password_hasher = PasswordHasher(time_cost=3, memory_cost=65536)
PASSWORD_MIN_LENGTH = 12
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [{"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"}]
REQUIRE_PASSWORD=true
password_required = True
show_password: false
tokenizer_config.json sets "eos_token": "<|endoftext|>", "pad_token": "<pad>"
tokenizer.add_special_tokens({"pad_token": "[PAD]"})
secrets: inherit
secrets = ["db-password", "api-token"]
x = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
The quick brown fox jumps over the lazy dog 1234567890
El ingeniero reinició la base de datos a las 14:30 y todo volvió a funcionar.
Die Sitzung läuft nach 30 Minuten ab; danach muss man sich neu anmelden.
Le jeton est renouvelé toutes les heures par le service d'authentification.
数据库每天凌晨三点备份一次。
会議は火曜日の10時に変更されました。
Задача закрыта, релиз назначен на пятницу.
Wi-Fi: ask at the reception for the password
login: ada
username: ada@example.com
user: "postgres"
""".strip().splitlines()
