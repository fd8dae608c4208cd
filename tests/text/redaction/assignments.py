"""Passwords and keys as languages, tools and people write them; the rules are tuned on these."""
# ruff: noqa: RUF001

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Mapping
from typing import Final

from tests.text.redaction.planting import Plant, planting
from tests.text.redaction.secrets import ALNUM, B64, HEX, Make, PlantedSecret, made, some

_WORDS: Final = (
    "sparrow",
    "Lemonade",
    "quartz",
    "Bison",
    "ripple",
    "Anchor",
    "plumtree",
    "Wagon",
    "copper",
    "Otter",
)


def _password(dice: random.Random) -> str:
    first, second = dice.sample(_WORDS, 2)
    return dice.choice(
        [
            f"{first}{second}{dice.randint(10, 999)}",
            f"{first}-{second}{dice.randint(1, 9)}!",
            f"{first}#{second}",
        ]
    )


_KEY: Final = made(some(ALNUM, 30), "a1")


def _pem(prefix: str, end: str = "\n") -> Plant:
    """A private key whose lines stand between a prefix and an end."""

    def plant(dice: random.Random) -> PlantedSecret:
        body = [some(B64, 64)(dice) for _ in range(6)]
        lines = ["-----BEGIN PRIVATE" + " KEY-----", *body, "-----END PRIVATE" + " KEY-----"]
        text = "".join(f"{prefix}{line}{end}" for line in lines)
        return PlantedSecret(f"{text} after", text[text.index(body[0]) : text.index(body[-1]) + 64])

    return plant


def _base64(make: Make) -> Make:
    return lambda dice: base64.b64encode(make(dice).encode()).decode()


def _varied(dice: random.Random) -> str:
    return f"{dice.choice(_WORDS).title()}-{dice.choice(_WORDS)}!{dice.randint(10, 99)}"


def _uuid(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def _sasl(dice: random.Random) -> str:
    return base64.b64encode(f"\0bob\0{_password(dice)}".encode()).decode()


LANGUAGES: Final[Mapping[str, Plant]] = {
    "python": planting(
        _password, 'os.environ["DB_PASSWORD"] = "§"', "PASSWORD: Final = '§'", 'f(password="§", port=1)'
    ),
    "python with bytes": planting(_password, 'password = b"§"', "SECRET_KEY = r'§'"),
    "javascript": planting(
        _password, 'process.env.PASSWORD = "§";', "const password = `§`", "{password: '§', port: 1}"
    ),
    "java": planting(
        _password, 'String password = "§";', 'props.put("password", "§");', 'setProperty("db.password", "§")'
    ),
    "c#": planting(_password, 'var password = @"§";', 'new NetworkCredential("bob", "§")', 'Password = "§",'),
    "go": planting(_password, 'const dbPassword = "§"', 'os.Setenv("DB_PASSWORD", "§")', "password := `§`"),
    "rust": planting(
        _password, 'let password: &str = "§";', '.password("§")', 'let password = String::from("§");'
    ),
    "kotlin and swift": planting(
        _password, 'val password: String = "§"', 'let password: String = "§"', 'password = "§"'
    ),
    "ruby": planting(_password, "ENV['DB_PASSWORD'] = '§'", ":password => '§'", "password: '§',"),
    "php": planting(_password, "define('DB_PASSWORD', '§');", "$db['password'] = '§';", "'password' => '§',"),
    "perl": planting(_password, "my $password = '§';", "password => q(§),"),
    "r and lua": planting(_password, 'password <- "§"', "password = [[§]]", "local password = '§'"),
    "lisp": planting(_password, '(setq password "§")', ':password "§"', '(def password "§")'),
    "visual basic": planting(_password, 'Dim password As String = "§"', 'password = "§"'),
    "pascal": planting(_password, "Password := '§';", "const Password = '§';"),
    "nix and make": planting(_password, 'password = "§";', "PASSWORD := §", "PASSWORD ?= §"),
    "aligned": planting(
        _password,
        'password               = "§"',
        "Password:        §",
        "| db_password      | §   |",
        "DB_PASS            : §",
        "Password          §",
    ),
    "terraform variable": planting(
        _password, 'variable "db_password" {\n  type    = string\n  default = "§"\n}'
    ),
    "sql insert": planting(
        made(some(ALNUM, 24), "A#"),
        "INSERT INTO api_keys (name, key) VALUES ('prod', '§');",
        "INSERT INTO users (\"name\", \"password\", age) VALUES ('kim', '§', 3)",
    ),
    "wrapped": planting(
        _password,
        'Credentials { user: "kim", pass: Some("§") }',
        "password: SecretStr('§')",
        'PASSWORD: !!str "§"',
    ),
    "braces of odbc": planting(
        made(_password, "X1-x"), "jdbc:sqlserver://db;user=sa;password={§};encrypt=true"
    ),
    "words of programs": planting(
        lambda dice: f"Ibis-Nil-{dice.randint(10, 99)}", "password: §", "--password §"
    ),
    "default of an expression": planting(
        _KEY, "process.env.SESSION_KEY || '§'", 'API_KEY ??= "§"', "token ||= '§'"
    ),
    "password by default": planting(_password, 'password ||= "§"', "cfg.password ?? '§'"),
    "key behind its name and stage": planting(made("signkey-prod-", some(HEX, 64)), "SIGNING_KEY=§"),
    "decoded": planting(
        some(HEX, 48),
        "const SECRET = Buffer.from('§', 'hex')",
        "$key = pack('H*', '§');",
        'let key: [u8; 24] = hex!("§");',
        'KEY = bytes.fromhex("§")',
        'key = b"§"',
    ),
    "django": planting(
        made(some(ALNUM + "!@#$%^&*-_=+", 30), "&9(r3t)y7%u@m^4#6"), "SECRET_KEY = 'django-insecure-§'"
    ),
    "graphql": planting(_password, 'login(email: "a@b.example", password: "§")', 'password: \\"§\\"'),
}

SHELLS: Final[Mapping[str, Plant]] = {
    "setenv": planting(_password, "setenv DB_PASSWORD §", "set -x DB_PASSWORD §", "set DB_PASSWORD=§"),
    "powershell variable": planting(_password, "$env:DB_PASSWORD = '§'", '$env:DB_PASSWORD="§"'),
    "dockerfile": planting(_password, "ENV DB_PASSWORD §", "ENV DB_PASSWORD=§", "ARG DB_PASSWORD=§"),
    "docker run": planting(
        _password, "docker run -e POSTGRES_PASSWORD=§ postgres", "podman run --env DB_PASS=§ app"
    ),
    "compose": planting(_password, "- DB_PASS=§", '- "MYSQL_ROOT_PASSWORD=§"', "  POSTGRES_PASSWORD: §"),
    "systemd": planting(_password, 'Environment="DB_PASSWORD=§"', "Environment=DB_PASSWORD=§"),
    "vault and secrets": planting(
        _password, "vault kv put secret/db password=§", "fly secrets set DB_PASSWORD=§"
    ),
    "config set": planting(_KEY, "heroku config:set SECRET_KEY=§", 'gh secret set TOKEN --body "§"'),
    "aws configure": planting(some(B64, 40), "aws configure set aws_secret_access_key §"),
    "psql dsn": planting(_password, 'psql "host=db user=app password=§ dbname=x"', "dbname=x password='§'"),
    "gpg": planting(_password, "gpg --batch --passphrase § -d f", "gpg --passphrase '§' -c f"),
    "sshpass glued": planting(_password, "sshpass -p§ ssh bob@host", "sshpass -p'§' ssh bob@host"),
    "http header": planting(_KEY, "curl -H 'Authorization: §' e.com", '"Authorization": "§"', "apikey: §"),
    "sasl": planting(_sasl, "smtp: >> AUTH PLAIN §", "A1 AUTHENTICATE PLAIN §"),
    "redis": planting(_password, "AUTH §\n", ">>> AUTH default §"),
    "openssl": planting(_password, "openssl enc -aes-256-cbc -in a -out b -k §"),
    "upper case option": planting(_password, "mosquitto_pub -h broker -u sensor -P § -t a"),
    "user with password": planting(
        _password,
        "etcdctl --user root:§ get /",
        "curl --proxy-user kim:§ e.com",
        "http --auth kim:§ GET e.com",
    ),
    "commands": planting(
        _password,
        "ssh-keygen -t ed25519 -N '§' -f k",
        "snmpwalk -v3 -u mon -A § host",
        "rabbitmqctl change_password svc '§'",
        "printf '§' | docker secret create db_pw -",
        "sudo -S apt update <<< §",
    ),
    "here string": planting(_password, 'sudo -S <<< "§" ls', "docker login -u ci --password-stdin <<< '§'"),
    "standard input": planting(_password, "echo '§' | docker login -u ci --password-stdin reg.example"),
    "user and password of any tool": planting(_password, "psexec -u CORP\\bob -p § cmd"),
    "user and password": planting(
        _password, "svn co --username bob --password § url", "ftp -u bob -P § host"
    ),
}

FILES: Final[Mapping[str, Plant]] = {
    "pem in mail": _pem("> "),
    "pem in a c string": _pem('  "', '\\n"\n'),
    "pem on one line": _pem("", " "),
    "pem with escapes": _pem("", "\\n"),
    "pem with double escapes": _pem("", "\\\\n"),
    "pem of windows": _pem("", "\r\n"),
    "pem in yaml": _pem("    "),
    "pem in javascript": _pem("'", "' +\n"),
    "yaml over lines": planting(_password, "password: >-\n  §", "password: |\n    §", "password:\n  §"),
    "kubernetes secret": planting(
        _base64(_password), "kind: Secret\ndata:\n  password: §", "data:\n  db-password: §"
    ),
    "wireless": planting(_password, "wpa-psk §", "PSK=§", 'key_mgmt=WPA-PSK\npsk="§"'),
    "html": planting(_password, '<input type="password" value="§">', '<input name="password" value="§"/>'),
    "postman": planting(_password, '{"key":"password","value":"§","type":"text"}'),
    "log line": planting(_KEY, "level=info token=§ user=bob", "[auth] session=§ ip=10.0.0.1"),
    "fragment": planting(_KEY, "https://a.example/cb#access_token=§&state=x", "https://a.example/?auth=§"),
    "webhook path": planting(_KEY, "https://hooks.example.com/services/§", "https://example.com/webhook/§"),
    "credential pair": planting(_password, "auth: bob:§", "credentials: bob:§", '"auth": ["bob", "§"]'),
    "strongswan": planting(_password, '10.0.0.1 %any : PSK "§"'),
    "approle": planting(_uuid, "secret_id=§", "Secret ID    = §", '"secret_id": "§"'),
    "openvpn": planting(
        lambda dice: "\n".join(some(HEX, 32)(dice) for _ in range(16)),
        "-----BEGIN OpenVPN Static key V1-----\n§\n-----END OpenVPN Static key V1-----",
    ),
    "nested yaml": planting(_KEY, "api:\n  key:\n    value: §"),
    "hash in an environment": planting(
        made("$argon2id$v=19$m=65540,t=3,p=4$", some(B64, 32), "$", some(B64, 43)),
        "ADMIN_TOKEN=§",
        "ADMIN_TOKEN='§'",
    ),
    "htpasswd": planting(made("$apr1$", some(ALNUM, 8), "$", some(ALNUM, 22)), "bob:§", "bob:§\n"),
    "hex key": planting(
        some(HEX, 64), "secret: §", "private key: §", "ENCRYPTION_KEY=§", "private_key = '0x§'"
    ),
    "without scheme": planting(_password, "bob:§@db.example.com:5432/x", "user:§@localhost"),
}

WORDS: Final[Mapping[str, Plant]] = {
    "key in other languages": planting(
        _KEY, "API-Schlüssel: §", "clé API : §", "clave de API: §", "API 密钥：§"
    ),
    "token in prose": planting(_KEY, "here is the token: §", "my openai key: §", "use the following key:\n§"),
    "temporary password": planting(
        _password, "Your temporary password is §", "Ihr Passwort lautet: §", "pass is §"
    ),
    "user then password": planting(_password, "Username: bob\nPassword: §", "user bob, password §"),
    "short words": planting(_password, "pwd is §", "pass: §", "PW=§"),
    "quoted": planting(_password, 'the password is "§"', "password `§`", "Passwort „§“"),
    "set to": planting(_password, "password set to §", "reset the password to §", "password changed: §"),
    "for something": planting(
        _password, "Password for the database: §", "password (staging): §", "DB password - §"
    ),
    "arrow": planting(
        _password,
        "password for the NAS -> §",
        "pre-shared key for the tunnel = §",
        "login as root with § as password",
    ),
    "key behind an arrow": planting(_KEY, "our bearer for staging -> §", "the key of the mailer → §"),
    "codes with a conjunction": planting(
        lambda dice: f"{dice.randint(1000, 9999)}-12ab and {dice.randint(1000, 9999)}-cd34", "backup codes: §"
    ),
    "names that end in pass": planting(
        _password, "$dbpass = '§';", "pgpass: §", "smtppass=§", 'dbPass = "§"'
    ),
    "app password of an account": planting(
        lambda dice: " ".join(some("abcdefghij", 4)(dice) for _ in range(4)), "SMTP_PASS=§", "MAIL_PASSWORD=§"
    ),
    "phrase": planting(
        lambda _: "mohn blume regen 17 kater",
        "LUKS passphrase for sda2 → §",
        "master password: §",
        'the passphrase is "§"',
    ),
    "words of a wallet": planting(
        lambda _: "ribbon gospel lava ozone fetch walnut tiger sunset", "my wallet words are §"
    ),
    "quoted with spaces": planting(lambda _: "Onion Ring 5", "user=app password='§' sslmode=require"),
    "other scripts": planting(
        _password, "รหัสผ่านคือ §", "पासवर्ड § है", "গোপন পাসওয়ার্ড: §", "گذرواژه: §", "پاس ورڈ § ہے"
    ),
    "behind the word": planting(_varied, "Şifre § olarak değişti", "a jelszó §", "密码改成 § 了", "비번은 §"),
    "before a change": planting(
        lambda dice: f"{_varied(dice)} to {_varied(dice)}", "I changed root's password from §"
    ),
    "short word, quoted": planting(_varied, 'the db pass is "§", please rotate', "le mdp c'est §"),
    "wireless in prose": planting(
        _varied, "the guest wifi is AcmeGuest / §", "le code wifi : §", "WLAN ist §."
    ),
    "account and password": planting(_varied, "creds for staging: kim@acme.example §"),
    "key behind a question": planting(_KEY, "can you put this token in CI? §"),
    "vault combination": planting(lambda _: "31-07-22", "the vault combination is §"),
    "key that is new": planting(_KEY, "heads up: prod token is now §"),
    "named in german": planting(_password, "das neue Kennwort heißt §"),
    "still": planting(_password, "the sudo password is still §", "das Passwort ist immer noch §"),
    "app password of words": planting(
        lambda dice: " ".join(some("abcdefghij", 4)(dice) for _ in range(4)), "gmail app password: §"
    ),
    "pair for something": planting(
        _password, "creds for the FTP: shop:§", "login for grafana is admin / §", "root user bob / §"
    ),
    "short word for something": planting(_password, "pw for the CRM is §", "pass on the jumpbox: §"),
    "card code": planting(some("123456789", 3), "cvv §", "CVC: §"),
    "combination": planting(lambda _: "31-07-22", "the safe combination is §"),
    "default account": planting(_password, "default creds admin/A§"),
    "asterisk inside": planting(made("k7*", some(ALNUM, 8), "**x4"), "the guest password is §"),
    "digits in pairs": planting(
        lambda dice: f"{dice.randint(1000, 9999)} {dice.randint(1000, 9999)}", "backup codes: §"
    ),
    "languages of prose": planting(
        _password, "heslo k serveru je §", "كلمة المرور هي §", "mật khẩu wifi là §", "kata sandi adalah §"
    ),
    "more languages": planting(
        _password, "Slaptažodis: §", "heslo: §", "jelszó: §", "κωδικός: §", "كلمة المرور: §"
    ),
}

ASSIGNMENTS: Final = {**LANGUAGES, **SHELLS, **FILES, **WORDS}
