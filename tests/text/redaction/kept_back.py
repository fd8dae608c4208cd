"""Kinds and shapes of secrets that no rule was written for, to measure what the rules find unseen.

Written before the rules it measures and not changed with them: a rule that is tuned on this list makes
the list worthless. What a rule misses here stays missed until a general rule happens to find it.
"""
# ruff: noqa: RUF001

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tests.text.redaction.secrets import ALNUM, B64, HEX, URL, Make, PlantedSecret, made, one_of, some

Plant: TypeAlias = Callable[[random.Random], PlantedSecret]

_LOWER: Final = string.ascii_lowercase
_LOWER_DIGIT: Final = _LOWER + string.digits
_BASE32: Final = string.ascii_uppercase + "234567"
_WORDS: Final = (
    *("apricot", "velvet", "thunder", "pickle", "orbit", "lantern", "meadow", "cobalt", "walnut", "saffron"),
    *("harbor", "mitten", "falcon", "ginger", "pebble", "tundra", "violin", "zephyr", "cactus", "blanket"),
)


def _uuid(dice: random.Random) -> str:
    digits = some(HEX, 32)(dice)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _strong(dice: random.Random) -> str:
    """Return a password from a generator."""
    return "".join(dice.choices(ALNUM + "!#%^*-_", k=dice.randint(12, 20))) + dice.choice("7k")


def _human(dice: random.Random) -> str:
    """Return a password that a person made up."""
    first, second = dice.sample(_WORDS, 2)
    return dice.choice(
        [
            f"{first.capitalize()}{dice.randint(10, 9999)}!",
            f"{first}{second.capitalize()}{dice.randint(1, 99)}",
            f"{first.capitalize()}-{second.capitalize()}#",
            f"{first}$${second}",
        ]
    )


def _github(dice: random.Random) -> str:
    return "gh" + "p_" + some(ALNUM, 36)(dice)


def _stripe(dice: random.Random) -> str:
    return "sk_" + "live_" + some(ALNUM, 24)(dice)


def _in(make: Make, *templates: str) -> Plant:
    """The secret in one of the lines, in place of `§`."""

    def plant(dice: random.Random) -> PlantedSecret:
        secret = make(dice)
        return PlantedSecret(dice.choice(templates).replace("§", secret), secret)

    return plant


def _disguised(make: Make, disguise: Callable[[str, random.Random], str], *templates: str) -> Plant:
    def plant(dice: random.Random) -> PlantedSecret:
        secret = disguise(make(dice), dice)
        return PlantedSecret(dice.choice(templates).replace("§", secret), secret)

    return plant


_KNOWN: Final = one_of(_github, _stripe, lambda dice: "AK" + "IA" + some(_BASE32, 16)(dice))
_BARE: Final = ("token: §", "use § to sign in", "he sent me § yesterday", 'const t = "§";')

VENDORS: Final[Mapping[str, Plant]] = {
    "doppler service token": _in(made("dp.st.dev.", some(ALNUM, 43)), "DOPPLER_TOKEN=§", "doppler run § now"),
    "plaid access token": _in(made("access-production-", _uuid), "plaid: §", "item token § was exchanged"),
    "airbyte-like client pair": _in(
        some(ALNUM, 32), "AIRBYTE_CLIENT_SECRET=§", 'airbyte: {client_secret: "§"}'
    ),
    "langsmith key": _in(made("lsv2_pt_", some(HEX, 32), "_", some(HEX, 10)), "langsmith § here", "LS=§"),
    "tavily key": _in(made("tvly-dev-", some(ALNUM, 32)), "search with §", "TAVILY=§"),
    "pinecone key": _in(made("pcsk_", some(ALNUM, 6), "_", some(ALNUM, 63)), 'Pinecone("§")', "use §"),
    "firecrawl key": _in(made("fc-", some(HEX, 32)), "FIRECRAWL_API_KEY=§", 'Firecrawl(api_key="§")'),
    "exa key": _in(_uuid, "EXA_API_KEY=§", "x-api-key: §"),
    "elevenlabs key": _in(made("sk_", some(HEX, 48)), "xi-api-key: §", "voice with §"),
    "deepgram key": _in(some(HEX, 40), "DEEPGRAM_API_KEY=§", "Authorization: Token §"),
    "e2b key": _in(made("e2b_", some(HEX, 40)), "sandbox §", "E2B=§"),
    "resend key": _in(made("re_", some(ALNUM, 8), "_", some(ALNUM, 24)), 'new Resend("§")', "mail with §"),
    "neon key": _in(made("napi_", some(_LOWER_DIGIT, 64)), "neon --api-key §", "neon §"),
    "prefect key": _in(made("pnu_", some(ALNUM, 36)), "prefect cloud login -k §", "flow runs with §"),
    "infracost key": _in(made("ico-", some(ALNUM, 32)), "INFRACOST_API_KEY=§", "infracost §"),
    "scaleway key": _in(_uuid, "SCW_SECRET_KEY=§", "secret_key: §"),
    "yandex key": _in(made("AQVN", some(URL, 35)), "YC_API_KEY=§", "Authorization: Api-Key §"),
    "hetzner token": _in(some(ALNUM, 64), "HCLOUD_TOKEN=§", "hcloud context, token §"),
    "clojars token": _in(made("CLOJARS_", some(HEX, 60)), "deploy with §", "lein §"),
    "contentful token": _in(made("CFPAT-", some(URL, 42), "k"), "contentful §", "cma=§"),
    "dynatrace token": _in(made("dt0c01.", some(_BASE32, 24), ".", some(_BASE32, 64)), "Api-Token §", "dt §"),
    "easypost key": _in(made("EZ", "AK", some(ALNUM, 54)), "easypost §", "parcel key §"),
    "duffel token": _in(made("duffel_", "live_", some(URL, 42), "x"), "fly with §", "DUFFEL=§"),
    "shippo token": _in(made("shippo_", "live_", some(HEX, 40)), "ShippoToken §", "SHIPPO=§"),
    "posthog key": _in(made("phx_", some(ALNUM, 43)), "posthog §", "PH=§"),
    "launchdarkly key": _in(made("sdk-", _uuid), "LD_SDK_KEY=§", "launchdarkly sdk key §"),
    "lob key": _in(made("live_", some(HEX, 35)), "LOB_API_KEY=§", "lob api key §"),
    "okta token": _in(made("00", some(URL, 39), "Z"), "Authorization: SSWS §", "okta token §"),
    "adobe secret": _in(made("p8e-", some(ALNUM, 32)), "adobe client secret §", "p8=§"),
    "asana token": _in(
        made("2/", some(string.digits, 16), "/", some(string.digits, 16), ":", some(HEX, 32)),
        "asana token §",
        "ASANA_ACCESS_TOKEN=§",
    ),
    "rapidapi key": _in(
        made(some(HEX, 10), "msh", some(HEX, 15), "p1", some(HEX, 6), "jsn", some(HEX, 12)),
        "X-RapidAPI-Key: §",
        "rapid api key is §",
    ),
    "azure devops token": _in(
        made(some(ALNUM, 76), "AZDO", some(ALNUM, 4)), "az devops login with §", "PAT: §"
    ),
    "unheard-of vendor with a prefix": _in(
        made(some(_LOWER, 5), "_", one_of(made("live_"), made("pat_"), made("key_")), some(ALNUM, 40)),
        "we got § from them",
        "X=§",
    ),
    "unheard-of vendor with a short prefix": _in(
        made(some(_LOWER, 3), "_", some(ALNUM, 36)), "sign in with §", "TOK=§", 'Client("§")'
    ),
    "unheard-of vendor without a prefix": _in(
        some(ALNUM, 40), "ZORBLE_API_KEY=§", "zorble api key: §", 'Zorble(apiKey: "§")'
    ),
}

CONFIGURATION: Final[Mapping[str, Plant]] = {
    "rails keys": _in(some(HEX, 32), "RAILS_MASTER_KEY=§", "secret_key_base: §", "config/master.key: §"),
    "laravel app key": _in(made("base64:", some(B64, 43), "="), "APP_KEY=§"),
    "wordpress salt": _in(
        some(ALNUM + "!#%^*-_|{}[]", 64), "define('AUTH_KEY', '§');", "define( 'LOGGED_IN_SALT', '§' );"
    ),
    "pgpass line": _in(
        _strong, "db.internal:5432:orders:app:§", "*:*:*:postgres:§", "10.0.0.4:5432:*:root:§"
    ),
    "shadow line": _in(
        made("$6$", some(ALNUM, 8), "$", some(ALNUM + "./", 86)),
        "root:§:19000:0:99999:7:::",
        "deploy:§:1:0:9:7:::",
    ),
    "xml element": _in(
        one_of(_strong, _human),
        "<password>§</password>",
        "<Password>§</Password>",
        "<clientSecret>§</clientSecret>",
    ),
    "xml attribute": _in(_strong, '<add key="ApiSecret" value="§" />', '<user name="bob" password="§"/>'),
    "env list": _in(
        _strong,
        '{"name": "DB_PASSWORD", "value": "§"}',
        "- name: API_TOKEN\n  value: §",
        '- name: SMTP_PASS\n  value: "§"',
    ),
    "properties": _in(_human, "spring.datasource.password=§", "mail.smtp.password = §", "keystore.pass=§"),
    "jdbc parameters": _in(
        _strong, "jdbc:mysql://db/shop?user=app&password=§", "jdbc:postgresql://h/d?password=§&ssl=true"
    ),
    "oracle url": _in(
        made(some(ALNUM, 14), "9"), "jdbc:oracle:thin:scott/§@//db:1521/ORCL", "sqlplus scott/§@orcl"
    ),
    "wireguard key": _in(made(some(B64, 43), "="), "PrivateKey = §", "PresharedKey = §"),
    "wifi": _in(_human, 'psk="§"', "wpa_passphrase=§", "nmcli dev wifi connect Home password §"),
    "terraform variable": _in(_human, 'db_password = "§"', 'variable "pw" { default = "§" } # password'),
    "powershell": _in(
        _human, 'ConvertTo-SecureString "§" -AsPlainText -Force', "$password = '§'", "-Password '§'"
    ),
    "sql statement": _in(
        _human,
        "CREATE USER app IDENTIFIED BY '§';",
        "ALTER ROLE app WITH PASSWORD '§';",
        "create user bob with encrypted password '§';",
        "SET PASSWORD FOR 'bob'@'%' = '§';",
    ),
    "c sources": _in(
        _human, '#define DB_PASS "§"', 'char *secret = "§";', 'static const char PASSWORD[] = "§";'
    ),
    "call with keywords": _in(
        _human,
        'connect(host="db", user="app", passwd="§")',
        'login("bob", password: "§")',
        'auth=("bob", "§")',
    ),
    "struct literal": _in(_human, 'Config{User: "app", Password: "§"}', "{ user: 'app', pass: '§' }"),
    "setter": _in(_human, 'ds.setPassword("§");', 'client.set_secret("§")', '.withPassword("§")'),
    "cloud-init": _in(_human, "chpasswd:\n  list: |\n    root:§", "password: §\nchpasswd: { expire: False }"),
    "chpasswd pipe": _in(_human, "echo 'root:§' | chpasswd", "echo § | sudo -S apt update"),
    "ansible": _in(_human, "ansible_become_pass: §", "ansible_ssh_pass=§"),
    "gradle and maven": _in(
        _strong, "signing.password=§", "ossrhPassword=§", "-Dpassword=§", "storePassword '§'"
    ),
    "npmrc": _in(_strong, "//npm.example.com/:_password=§", "//npm.example.com/:_authToken=§", "_auth=§"),
    "pip url": _in(_strong, "--extra-index-url https://ci:§@wheels.example.com/simple"),
    "s3cfg": _in(some(ALNUM, 40), "secret_key = §", "access_token = §", "[rclone]\nsecret_access_key = §"),
    "json web key": _in(
        made(some(URL, 42), "A"),
        '{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","d":"§"}',
        '{"kty":"oct","alg":"HS256","k":"§"}',
    ),
    "otp seed": _in(
        some(_BASE32, 32), "otpauth://totp/Acme:bob?secret=§&issuer=Acme", "TOTP secret: §", "2FA seed §"
    ),
    "ethereum key": _in(
        made("0x", some(HEX, 64)), "PRIVATE_KEY=§", "wallet private key §", 'new Wallet("§")'
    ),
    "extended key": _in(
        made("xprv9s21ZrQH143K", some("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijk", 95)), "seed §"
    ),
    "nostr key": _in(made("nsec1", some("023456789acdefghjklmnpqrstuvwxyz", 58)), "nostr §", "post as §"),
}

REQUESTS: Final[Mapping[str, Plant]] = {
    "query string": _in(
        some(ALNUM, 36),
        "GET /v1/me?access_token=§ HTTP/1.1",
        "https://api.example.com/x?api_key=§&page=2",
        "https://maps.example.com/?key=§",
        "wss://stream.example.com/?token=§",
    ),
    "vendor headers": _in(
        some(ALNUM, 32),
        "PRIVATE-TOKEN: §",
        "X-Vault-Token: §",
        "X-Auth-Token: §",
        "Ocp-Apim-Subscription-Key: §",
    ),
    "authorization schemes": _in(
        some(ALNUM, 40), "Authorization: token §", "Authorization: ApiKey §", "Proxy-Authorization: Bearer §"
    ),
    "session cookies": _in(
        some(_LOWER_DIGIT, 26),
        "Cookie: PHPSESSID=§; theme=dark",
        "Set-Cookie: JSESSIONID=§; Path=/; HttpOnly",
        "cookie: lang=de; laravel_session=§",
    ),
    "signed cookie": _in(
        made("s%3A", some(URL, 32), ".", some(ALNUM, 43)),
        "Cookie: connect.sid=§",
        "Set-Cookie: connect.sid=§; Path=/",
    ),
    "auth cookies": _in(
        some(URL, 60),
        "Cookie: __Secure-next-auth.session-token=§",
        "document.cookie = 'auth_token=§; path=/'",
    ),
    "csrf and refresh": _in(some(ALNUM, 48), "refresh_token=§", '"refreshToken":"§"', "id_token=§&state=1"),
    "presigned url": _in(
        some(HEX, 64),
        "https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature=§",
        "?X-Goog-Signature=§",
    ),
    "function key": _in(
        made(some(URL, 54), "=="), "https://f.azurewebsites.net/api/run?code=§", "x-functions-key: §"
    ),
    "form body": _in(
        _human, "curl -d 'username=bob&password=§' https://example.com/login", "user=bob&pass=§&remember=1"
    ),
    "json body": _in(
        _human, """curl -d '{"user":"bob","password":"§"}' https://e.com""", '{\\"password\\": \\"§\\"}'
    ),
    "form echo": _in(_human, "POST /login username=bob&passwd=§", "login[password]=§", "user[password]=§"),
    "webhook": _in(
        made(some(HEX, 32), "/", _uuid), "https://contoso.webhook.office.com/webhookb2/a@b/IncomingWebhook/§"
    ),
}

COMMANDS: Final[Mapping[str, Plant]] = {
    "docker login": _in(_human, "docker login -u bob -p § ghcr.io", "docker login --password § -u bob"),
    "azure login": _in(_strong, "az login --service-principal -u app -p § --tenant t"),
    "smb": _in(_human, "smbclient //nas/share -U bob%§", "mount -t cifs //n/s /m -o username=bob,password=§"),
    "net use": _in(_human, r"net use Z: \\nas\share /user:bob §", "net user bob § /add"),
    "mongosh": _in(
        _human, "mongosh --host db -u admin -p § --authenticationDatabase admin", "mongodump -u a -p §"
    ),
    "openssl": _in(_human, "openssl pkcs12 -export -passout pass:§", "openssl rsa -in k.pem -passin pass:§"),
    "zip": _in(_human, "zip -P § a.zip b", "unzip -P § a.zip", "7z x -p§ a.7z"),
    "wget": _in(_human, "wget --user=bob --password=§ https://e.com/f", "http -a bob:§ https://e.com"),
    "ldap": _in(_human, "ldapsearch -x -D cn=admin -w § -b dc=x", "ldapmodify -D cn=admin -w '§'"),
    "environment in front": _in(_human, "RESTIC_PASSWORD=§ restic backup /", "MYSQL_PWD=§ mysqldump shop"),
    "keytool": _in(_human, "keytool -list -keystore k.jks -storepass §", "jarsigner -keypass § a.jar k"),
    "lftp": _in(_human, "lftp -u bob,§ ftp.example.com", "ftp://bob:§@ftp.example.com/in"),
    "vpn and remote desktop": _in(_human, "xfreerdp /u:bob /p:§ /v:host", "rdesktop -u bob -p § host"),
    "expect": _in(_human, r'send "§\r" ;# password', 'expect "password:"\nsend "§\\r"'),
    "option of any tool": _in(
        _human, "frobnicate --db-password § --verbose", "tool --secret=§", "deploy --auth-token '§'"
    ),
    "kubectl": _in(
        _human,
        "kubectl create secret generic db --from-literal=password=§",
        "kubectl create secret docker-registry r --docker-password=§",
        "helm install a b --set postgres.password=§",
    ),
}

PROSE: Final[Mapping[str, Plant]] = {
    "italian": _in(_human, "la password è §", "Password di accesso: §", "parola d'ordine: §"),
    "portuguese": _in(_human, "a senha é §", "Senha: §", "palavra-passe: §"),
    "dutch": _in(_human, "het wachtwoord is §", "Wachtwoord: §"),
    "polish": _in(_human, "hasło to §", "Hasło: §"),
    "russian": _in(_human, "пароль: §", "Пароль от базы — §"),
    "chinese": _in(_human, "密码：§", "密码是 §", "口令: §"),
    "japanese": _in(_human, "パスワード：§", "パスワードは§です"),
    "korean and turkish": _in(_human, "비밀번호: §", "şifre: §", "parola: §"),
    "nordic": _in(_human, "lösenord: §", "adgangskode: §", "passordet er §", "salasana: §"),
    "chat": _in(
        _human,
        "the admin password for staging is §, please do not share it",
        "pw: §",
        "Login: bob / Pass: §",
        "creds are bob / §",
        "user bob password §",
        "you can log in with bob:§",
    ),
    "changed": _in(
        _human,
        "I changed the password to §",
        "set the root password to '§'",
        "new password: §",
        "password was reset to §.",
    ),
    "passphrase": _in(
        lambda dice: " ".join(dice.sample(_WORDS, 5)),
        'passphrase: "§"',
        "the passphrase is '§'",
        "Passphrase = `§`",
    ),
    "markdown": _in(_human, "**Password:** §", "| password | § |", "- Password: `§`", "Password: **§**"),
    "pin": _in(some(string.digits, 6), "PIN: §", "the pin is §", "door code: §"),
}


def _base64(text: str, _: random.Random) -> str:
    return base64.b64encode(text.encode()).decode()


def _between(separator: str) -> Callable[[str, random.Random], str]:
    def disguise(text: str, dice: random.Random) -> str:
        at = dice.randint(6, len(text) - 6)
        return text[:at] + separator + text[at:]

    return disguise


def _math(text: str, _: random.Random) -> str:
    """Return the text in Unicode's mathematical bold letters."""
    bases = (("A", 0x1D400), ("a", 0x1D41A), ("0", 0x1D7CE))
    return "".join(
        next(
            (
                chr(code + ord(c) - ord(first))
                for first, code in bases
                if 0 <= ord(c) - ord(first) < (10 if first == "0" else 26)
            ),
            c,
        )
        for c in text
    )


def _prefixed_pem(prefix: str) -> Plant:
    def plant(dice: random.Random) -> PlantedSecret:
        body = [some(B64, 64)(dice) for _ in range(8)]
        head, foot = "-----BEGIN RSA PRIVATE" + " KEY-----", "-----END RSA PRIVATE" + " KEY-----"
        lines = [f"{prefix}{each}" for each in (head, *body, foot)]
        text = "\n".join(lines)
        return PlantedSecret(f"{text}\nafter", text[text.index(body[0]) : text.index(body[-1]) + 64])

    return plant


DISGUISES: Final[Mapping[str, Plant]] = {
    "bidi marks": _disguised(_KNOWN, lambda t, _: t[:7] + "\u200e" + t[7:12] + "\u202c" + t[12:], *_BARE),
    "variation selectors": _disguised(_KNOWN, lambda t, _: "\ufe0f".join((t[:3], t[3:9], t[9:])), *_BARE),
    "grapheme joiner": _disguised(_KNOWN, _between("\u034f"), *_BARE),
    "letters of mathematics": _disguised(_KNOWN, _math, *_BARE),
    "backslash x": _disguised(
        _KNOWN, lambda t, _: "".join(f"\\x{ord(c):02x}" for c in t), "t = '§'", "printf §"
    ),
    "octal": _disguised(_KNOWN, lambda t, _: "".join(f"\\{ord(c):03o}" for c in t), "printf '§'", "t = '§'"),
    "some letters escaped": _disguised(
        _KNOWN, lambda t, d: "".join(f"\\u{ord(c):04x}" if d.random() < 0.3 else c for c in t), '{"t": "§"}'
    ),
    "numeric entities": _disguised(
        _KNOWN, lambda t, d: "".join(f"&#x{ord(c):x};" if d.random() < 0.5 else c for c in t), "<b>§</b>"
    ),
    "soft breaks of mail": _disguised(_KNOWN, _between("=\n"), *_BARE),
    "base64 within base64": _disguised(
        _KNOWN, lambda t, d: _base64(_base64(t, d), d), "data: §", "echo § | base64 -d"
    ),
    "base64 of a config": _disguised(
        _github, lambda t, d: _base64(json.dumps({"user": "bob", "token": t}), d), "data: §", "blob=§"
    ),
    "base64url without padding": _disguised(
        _KNOWN,
        lambda t, _: base64.urlsafe_b64encode(f"x={t}".encode()).decode().rstrip("="),
        "state=§",
        "b §",
    ),
    "hex": _disguised(_KNOWN, lambda t, _: t.encode().hex(), "hex: §", "xxd -r -p <<< §"),
    "hex in pairs": _disguised(_KNOWN, lambda t, _: t.encode().hex(" "), "bytes §"),
    "percent": _disguised(
        _KNOWN, lambda t, _: "".join(f"%{ord(c):02X}" for c in t), "?t=§", "decode § first"
    ),
    "colours of a terminal": _disguised(_KNOWN, _between("\x1b[31m"), *_BARE),
    "markdown escape": _disguised(_stripe, lambda t, _: t.replace("_", "\\_"), *_BARE),
    "concatenated by a dot": _disguised(_KNOWN, _between("' . '"), "$t = '§';"),
    "adjacent literals": _disguised(_KNOWN, _between('"\n     "'), 't = ("§")'),
    "template": _disguised(_KNOWN, _between('" & "'), 't = "§"'),
    "letter glued behind": _disguised(_KNOWN, lambda t, _: t, "§zzz and more", "key§."),
    "underscore glued in front": _disguised(_KNOWN, lambda t, _: t, "x_§ here", "my-§ here"),
    "quoted key of mail": _prefixed_pem("> "),
    "key in a diff": _prefixed_pem("+"),
    "key with numbers of lines": _prefixed_pem("   12  "),
    "indented key": _prefixed_pem("      "),
    "comment of a key": _prefixed_pem("# "),
}

KEPT_BACK: Final[Mapping[str, Plant]] = {
    **VENDORS,
    **CONFIGURATION,
    **REQUESTS,
    **COMMANDS,
    **PROSE,
    **DISGUISES,
}
