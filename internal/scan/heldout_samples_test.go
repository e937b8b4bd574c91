package scan_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strings"
)

var (
	b64    = base64.StdEncoding.EncodeToString
	rawURL = base64.RawURLEncoding.EncodeToString
)

// parts are the named pieces of shapes.
var parts map[string]func(*rng) string

func init() {
	parts = map[string]func(*rng) string{
		"uuid": func(r *rng) string { return build(r, "{h8}-{h4}-4{h3}-a{h3}-{h12}") },
		"jwt":  func(r *rng) string { return jwt(r, "HS256", 43) },
		"rs":   func(r *rng) string { return jwt(r, "RS256", 342) },
		"bedrock": func(r *rng) string {
			return b64([]byte("BedrockAPIKey-" + r.str(lower+digits, 4) + "-at-" + r.str(digits, 12) + ":" + b64(r.bytes(33))))[4:]
		},
		"bedrock-url": func(r *rng) string {
			return rawURL([]byte("amazonaws.com/?Action=CallWithBearerToken&X-Amz-Credential=" + r.str(upper, 20) + "&X-Amz-Signature=" + build(r, "{h64}") + "&Version=1"))
		},
		"ops": func(r *rng) string {
			return b64([]byte(`"signInAddress":"my.1password.com","userAuth":{"method":"SRPg-4096","alg":"PBES2g-HS256","iterations":650000,"salt":"` + build(r, "{a22}") + `"},"email":"` + build(r, "{l13}") + `@1passwordserviceaccounts.com","srpX":"` + build(r, "{h64}") + `"}`))
		},
		"sentry": func(r *rng) string {
			return rawURL([]byte(`"iat":17` + r.str(digits, 8) + `.31,"url":"https://sentry.io","region_url":"https://us.sentry.io","org":"` + r.str(lower, 7) + `"}`))
		},
		"grafana": func(r *rng) string {
			return b64([]byte(`"o":"` + r.str(digits, 6) + `","n":"stack-` + r.str(digits, 6) + `-hl-write","k":"` + r.str(base62, 24) + `","m":{"r":"prod-eu-west-0"}}`))
		},
		"snowflake-id": func(r *rng) string { return b64([]byte("1" + r.str(digits, 17))) },
	}
}

// jwt is a signed-looking token; n is the length of its signature.
func jwt(r *rng, alg string, n int) string {
	head := rawURL([]byte(`{"alg":"` + alg + `","typ":"JWT"}`))
	body := rawURL([]byte(`{"sub":"` + r.str(digits, 9) + `","iss":"https://id.acme-internal.io","iat":17` + r.str(digits, 8) + `,"scope":"` + r.str(lower, 9) + `"}`))
	return head + "." + body + "." + build(r, fmt.Sprintf("{a%d}", n))
}

// shapes are read from testdata/shapes.txt.
var shapes = func() (list []shape) {
	text, err := os.ReadFile("testdata/shapes.txt")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 4 {
			list = append(list, shape{f[0], f[1], f[2], f[3] == "own"})
		}
	}
	return list
}()

const dashes = "-----"

func pem(kind, body string) string {
	return dashes + "BEGIN " + kind + dashes + "\n" + body + "\n" + dashes + "END " + kind + dashes + "\n"
}

func lines(s string, n int) string {
	var out []string
	for ; len(s) > n; s = s[n:] {
		out = append(out, s[:n])
	}
	return strings.Join(append(out, s), "\n")
}

func indent(s, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+by) + "\n"
}

func escaped(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

// composites are the formats that are more than one token.
func composites() []sample {
	var out []sample
	add := func(format string, own, secret bool, texts ...string) {
		for _, text := range texts {
			kind := "/"
			if !secret {
				kind = "/near/"
			}
			out = append(out, sample{fmt.Sprintf("%s%s%d", format, kind, len(out)), format, text, secret, own})
		}
	}
	yes := func(format string, own bool, texts ...string) { add(format, own, true, texts...) }
	no := func(format string, texts ...string) { add(format, false, false, texts...) }

	for _, kind := range slices.Sorted(maps.Keys(privateKeys)) {
		magic := privateKeys[kind]
		format := "key-" + strings.ToLower(strings.ReplaceAll(kind, " ", "-"))
		r := seeded(format)
		body := func() string { return lines(b64(append([]byte(magic), r.bytes(420)...)), 64) }
		yes(format, true, pem(kind, body()),
			`{"host": "db1", "key": "`+escaped(pem(kind, body()))+`"}`+"\n",
			"tls:\n  server.key: |\n"+indent(pem(kind, body()), "    "),
			"cat > /root/.ssh/id <<'END'\n"+pem(kind, body())+"END\nchmod 600 /root/.ssh/id\n",
			"SIGNING=\""+escaped(strings.TrimSpace(pem(kind, body())))+"\"\n",
			"data:\n  ssh.key: "+b64([]byte(pem(kind, body())))+"\n")
		no(format, "if strings.Contains(text, \""+dashes+"BEGIN "+kind+dashes+"\") {\n\treturn errKey\n}\n",
			"The file starts with `"+dashes+"BEGIN "+kind+dashes+"` and ends with the matching line.\n", pem(kind, "..."), pem(kind, "<paste your key here>"))
	}
	r := seeded("composites")
	gen := func(shape string) string { return build(r, shape) }
	pgp := func() string {
		return pem("PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\n"+lines("lQVYB"+gen("{b635}"), 64)+"\n="+gen("{b4}"))
	}
	yes("key-pgp", true, pgp(), "data:\n  key: |\n"+indent(pgp(), "    "), `{"pgp": "`+escaped(pgp())+`"}`)
	no("key-pgp", pem("PGP PUBLIC KEY BLOCK", "\n"+lines("mQENB"+gen("{b635}"), 64)+"\n="+gen("{b4}")),
		dashes+"BEGIN PGP SIGNED MESSAGE"+dashes+"\nHash: SHA256\n\nhello\n")
	enc := func() string {
		return pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"+gen("{H32}")+"\n\n"+lines(gen("{b700}"), 64))
	}
	yes("key-legacy-encrypted", true, enc(), "key: |\n"+indent(enc(), "  "), `{"pem":"`+escaped(enc())+`"}`)
	no("key-legacy-encrypted", "Proc-Type: 4,ENCRYPTED and DEK-Info: AES-128-CBC stand above the body of old keys.\n")
	ppk := func(v string) string {
		return "PuTTY-User-Key-File-" + v + ": ssh-rsa\nEncryption: none\nComment: rsa-key-20261002\nPublic-Lines: 6\n" + lines("AAAAB3NzaC1yc2EAAAAD"+gen("{b350}"), 64) +
			"\nPrivate-Lines: 14\n" + lines("AAABA"+gen("{b880}"), 64) + "\nPrivate-MAC: " + gen("{h40}") + "\n"
	}
	yes("key-putty", true, ppk("2"), ppk("3"), "write_files:\n- path: /k.ppk\n  content: |\n"+indent(ppk("2"), "    "))
	no("key-putty", "PuTTY-User-Key-File-2: is the first line of a .ppk file, Private-Lines: counts the rest.\n")
	no("age", "# public key: age1"+strings.ToLower(gen("{e58}"))+"\n", "age-keygen prints AGE-SECRET-KEY-1 followed by 58 characters.\n")

	gcp := func(key string) string {
		return `{"type": "service_account", "project_id": "acme-prod", "private_key_id": "` + gen("{h40}") + `", "private_key": "` + key +
			`", "client_email": "ci@acme-prod.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token"}`
	}
	pk := func() string {
		return escaped(pem("PRIVATE KEY", lines("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKc"+gen("{b1580}"), 64)))
	}
	yes("gcp-service-account", true, gcp(pk()), strings.ReplaceAll(gcp(pk()), ", ", ",\n  "), "GOOGLE_CREDENTIALS='"+gcp(pk())+"'\n", "creds: "+b64([]byte(gcp(pk())))+"\n")
	no("gcp-service-account", `{"type": "service_account", "project_id": "acme-prod"}`, gcp("<redacted>"), gcp(dashes+`BEGIN PRIVATE KEY`+dashes+`\n...\n`+dashes+`END PRIVATE KEY`+dashes+`\n`))

	for _, scheme := range []string{"postgres", "postgresql", "mysql", "mongodb", "mongodb+srv", "redis", "amqp", "amqps", "mssql", "sqlserver", "https", "ftp", "snowflake"} {
		f := "uri-" + scheme
		u := func(user, pass string) string {
			return scheme + "://" + user + ":" + pass + "@db-3.acme-internal.io/main"
		}
		yes(f, false, "DATABASE_URL="+u("app", gen("{w20}"))+"\n", "dsn := \""+u("svc_billing", gen("{w14}"))+"\"\n",
			"store:\n  url: "+u("root", gen("{w7}%40{w8}"))+"\n", "2026-10-02 ERROR cannot reach "+u("etl", gen("{w8}-{w9}"))+": timeout\n")
		no(f, "DATABASE_URL="+u("user", "password")+"\n", "url: "+u("${DB_USER}", "${DB_PASS}")+"\n", "fmt.Sprintf(\""+u("%s", "%s")+"\", user, pass)\n",
			u("app", "****")+"\n", u("<user>", "<password>")+"\n", "connect to "+scheme+"://db-3.acme-internal.io:5432/main\n")
	}
	jdbc := func(p string) string {
		return "jdbc:postgresql://db-3.acme-internal.io:5432/main?user=app&password=" + p
	}
	yes("uri-jdbc", false, "spring.datasource.url="+jdbc(gen("{w20}"))+"\n", "String u = \"jdbc:sqlserver://db:1433;databaseName=x;user=sa;password="+gen("{w18}")+";\";\n", "url: "+jdbc(gen("{w16}"))+"&ssl=true\n")
	no("uri-jdbc", "url: "+jdbc("${DB_PASSWORD}")+"\n", "jdbc:mysql://localhost:3306/test?useSSL=false\n", jdbc("password")+"\n")
	yes("uri-redis-nouser", false, "REDIS_URL=redis://:"+gen("{w32}")+"@cache-1:6379/0\n", "url: rediss://:"+gen("{w24}")+"@cache-1:6380\n", "redis-cli -u redis://:"+gen("{w28}")+"@cache-1\n")
	no("uri-redis-nouser", "REDIS_URL=redis://cache-1:6379/0\n", "redis://:${REDIS_PASSWORD}@cache-1:6379\n")

	yes("netrc", false, "machine git.acme-internal.io login ci password "+gen("{w20}")+"\n",
		"machine api.heroku.com\n  login ops@acme-internal.io\n  password "+gen("{h40}")+"\n", "RUN echo 'machine git.acme-internal.io login bot password "+gen("{w24}")+"' > ~/.netrc\n")
	no("netrc", "machine example.com login <user> password <password>\n", "A .netrc line holds machine, login and password in this order.\n", "machine git.acme.io login $USER password $TOKEN\n")
	yes("npmrc", false, "//registry.npmjs.org/:_authToken="+gen("{uuid}")+"\n", "registry=https://npm.acme-internal.io/\n//npm.acme-internal.io/:_authToken="+gen("{w40}")+"\n",
		"//npm.acme-internal.io/:_auth="+b64([]byte("ci:"+gen("{w22}")))+"\n", "//npm.acme-internal.io/:_password="+b64([]byte(gen("{w22}")))+"\n")
	no("npmrc", "//registry.npmjs.org/:_authToken=${NPM_TOKEN}\n", "registry=https://registry.npmjs.org/\nsave-exact=true\n", "//registry.npmjs.org/:_authToken=<token>\n")
	user := func(rest string) string {
		return "apiVersion: v1\nkind: Config\nusers:\n- name: admin\n  user:\n" + indent(rest, "    ")
	}
	yes("kubeconfig", false, user("token: "+jwt(r, "RS256", 342)), user("client-certificate-data: "+b64([]byte(pem("CERTIFICATE", lines(gen("{b600}"), 64))))+"\nclient-key-data: "+b64([]byte(pem("RSA PRIVATE KEY", lines("MIIEpA"+gen("{b1000}"), 64))))),
		user("token: "+gen("{l6}.{l16}{w20}")), user("username: admin\npassword: "+gen("{w24}")))
	no("kubeconfig", user("client-certificate: /etc/k8s/admin.crt\nclient-key: /etc/k8s/admin.key"), user("exec:\n  command: aws-iam-authenticator\n  args: [token, -i, prod]"), user("token: REDACTED"))
	auth := func(a string) string { return `{"auths": {"registry.acme-internal.io": {"auth": "` + a + `"}}}` }
	cred := func(shape string) string { return b64([]byte("ci:" + gen(shape))) }
	yes("docker-auth", false, auth(cred("{w24}")), strings.ReplaceAll(auth(cred("{h36}")), "{", "{\n  "), ".dockerconfigjson: "+b64([]byte(auth(cred("{w30}"))))+"\n")
	no("docker-auth", auth("<base64>"), `{"auths": {"registry.acme-internal.io": {}}, "credsStore": "desktop"}`, auth("${DOCKER_AUTH}"))
	yes("authorization", false, "curl -H 'Authorization: Basic "+cred("{w20}")+"' https://x.acme-internal.io/\n", "Authorization: Bearer "+gen("{a48}")+"\n",
		"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Token "+gen("{h40}")+"\r\n\r\n", "headers = {\"Authorization\": \"Bearer "+gen("{w40}")+"\"}\n", "Proxy-Authorization: Basic "+cred("{w18}")+"\n", "curl -u deploy:"+gen("{w22}")+" https://x.acme-internal.io/\n")
	no("authorization", "Authorization: Bearer <token>\n", "curl -H \"Authorization: Bearer $TOKEN\" https://x/\n", "req.Header.Set(\"Authorization\", \"Bearer \"+token)\n", "Authorization: Basic "+b64([]byte("user:password"))+"\n", "Authorization: Bearer YOUR_ACCESS_TOKEN\n")

	conn := func(k string) string {
		return "DefaultEndpointsProtocol=https;AccountName=acmeprod;AccountKey=" + k + ";EndpointSuffix=core.windows.net"
	}
	key := func(n int) string { return b64(r.bytes(n)) }
	yes("azure-connection", false, "AZURE_STORAGE_CONNECTION_STRING=\""+conn(key(64))+"\"\n", `{"Storage": "`+conn(key(64))+`"}`, "var c = new BlobServiceClient(\""+conn(key(64))+"\");\n",
		"bus: Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey="+key(32)+"\n", "Server=tcp:acme.database.windows.net,1433;Database=m;User ID=sa;Password="+gen("{w18}")+";Encrypt=True;\n")
	no("azure-connection", conn("<account-key>")+"\n", conn("${KEY}")+"\n", "UseDevelopmentStorage=true\n", "Server=db;Database=m;Integrated Security=true;\n", "Server=db;User ID=sa;Password={your_password};\n")
	sas := func(sig string) string {
		return "https://acmeprod.blob.core.windows.net/backup?sv=2024-11-04&ss=b&srt=sco&sp=rwdl&se=2027-01-01T00:00:00Z&spr=https&sig=" + sig
	}
	yes("azure-sas", false, "BACKUP="+sas(url.QueryEscape(key(32)))+"\n", "azcopy cp . \""+sas(url.QueryEscape(key(32)))+"\"\n", "uploaded to "+sas(url.QueryEscape(key(32)))+" in 3s\n")
	no("azure-sas", sas("<signature>")+"\n", sas("REDACTED")+"\n", "bool ok = verify(msg, sig=sig)\n")
	no("jwt", "eyJAAAAAAAAAAAA.eyJAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAA\n", rawURL([]byte(`{"name":"x","id":12}`))+"."+rawURL([]byte(`{"page":2,"size":50}`))+"."+gen("{a43}")+"\n", "A JWT has three parts: header.payload.signature, and starts with eyJ.\n")

	yes("pii-ssn", false, "Employee SSN: "+ssn(r)+"\n", "name,ssn\nJ. Doe,"+ssn(r)+"\n", `{"social_security_number": "`+ssn(r)+`"}`, "My social security number is "+ssn(r)+", thanks.\n")
	no("pii-ssn", "SSN: 000-12-3456\n", "ssn 666-45-6789\n", "ssn: 912-45-6789\n", "ssn: 123-00-6789\n", "ssn: 123-45-0000\n", "part 12-345-678 rev 3\n")
	visa, master, amex := luhn("4"+gen("{d14}")), luhn("53"+gen("{d13}")), luhn("37"+gen("{d12}"))
	group := func(s, sep string) string { return s[:4] + sep + s[4:8] + sep + s[8:12] + sep + s[12:] }
	yes("pii-card", false, "card: "+visa+" exp 09/28\n", "Please charge "+group(master, " ")+" for the order.\n", `{"pan": "`+group(visa, "-")+`"}`, "amex "+amex[:4]+" "+amex[4:10]+" "+amex[10:]+"\n")
	wrong := visa[:15] + string('0'+(visa[15]-'0'+1)%10)
	no("pii-card", "card: "+wrong+"\n", "order id "+luhn("9"+gen("{d14}"))+"\n", "timestamp 1764583200000000\n", "card **** **** **** 4242\n")
	de, gb, fr := iban("DE", gen("{d18}")), iban("GB", "NWBK"+gen("{d14}")), iban("FR", gen("{d23}"))
	yes("pii-iban", false, "IBAN: "+de+"\n", "Bitte auf "+de[:4]+" "+de[4:8]+" "+de[8:12]+" "+de[12:16]+" "+de[16:20]+" "+de[20:]+" überweisen.\n", `{"iban": "`+gb+`"}`, "iban,"+fr+"\n")
	no("pii-iban", "IBAN: "+de[:21]+string('0'+(de[21]-'0'+1)%10)+"\n", "IBAN: DE00 0000 0000 0000 0000 00\n", "part number GB12ABCD\n")
	mail := func() string { return gen("{L6}.{L8}") + "@" + gen("{L9}") + ".de" }
	yes("pii-email", false, "Contact: "+mail()+"\n", `{"email": "`+mail()+`"}`, "Write to "+mail()+" for access.\n")
	no("pii-email", "git clone git@github.com:acme/tool.git\n", "npm i lodash@4.17.21\n", "Signed-off-by: Ann Example <ann@acme-internal.io>\n", "@media screen { a { color: red } }\n")
	yes("pii-phone", false, "Phone: +49 30 "+gen("9{d7}")+"\n", "call me at +1 (415) "+gen("86{d1}-2{d3}")+"\n", `{"phone": "+4479`+gen("{d8}")+`"}`)
	no("pii-phone", "version 1.415.867.5309\n", "2026-10-02 08:14:55\n", "192.168.100.200:8080\n", "ISBN 978-3-16-148410-0\n")
	return out
}

// privateKeys: PEM kinds and the bytes their bodies begin with.
var privateKeys = map[string]string{
	"RSA PRIVATE KEY":       "\x30\x82\x04\xa4\x02\x01\x00\x02\x82\x01\x01\x00",
	"EC PRIVATE KEY":        "\x30\x77\x02\x01\x01\x04\x20",
	"DSA PRIVATE KEY":       "\x30\x82\x01\xbb\x02\x01\x00\x02\x81\x81\x00",
	"OPENSSH PRIVATE KEY":   "openssh-key-v1\x00\x00\x00\x00\x04none\x00\x00\x00\x04none",
	"PRIVATE KEY":           "\x30\x82\x04\xbd\x02\x01\x00\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00",
	"ENCRYPTED PRIVATE KEY": "\x30\x82\x05\x0e\x30\x40\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d",
}

func ssn(r *rng) string {
	return fmt.Sprintf("%03d-%02d-%04d", 101+r.n(500), 11+r.n(80), 1001+r.n(8000))
}

// luhn appends the check digit.
func luhn(s string) string {
	sum := 0
	for i := range s {
		d := int(s[len(s)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return s + string(rune('0'+(10-sum%10)%10))
}

// iban puts in the mod 97 check digits.
func iban(country, account string) string {
	var n strings.Builder
	for _, c := range account + country + "00" {
		if c >= 'A' {
			fmt.Fprint(&n, c-'A'+10)
		} else {
			n.WriteRune(c)
		}
	}
	x, _ := new(big.Int).SetString(n.String(), 10)
	return fmt.Sprintf("%s%02d%s", country, 98-new(big.Int).Mod(x, big.NewInt(97)).Int64(), account)
}

// encoded are tokens with their own prefix, hidden one layer down.
func encoded() []sample {
	half := func(s string) (string, string) { return s[:len(s)/2], s[len(s)/2:] }
	hide := []wrap{
		{"base64", func(_, x string) string { return "blob: " + b64([]byte("value="+x+"\n")) + "\n" }},
		{"base64url", func(_, x string) string { return "state=" + rawURL([]byte(`{"k":"`+x+`"}`)) + "\n" }},
		{"base64-twice", func(_, x string) string { return "blob: " + b64([]byte(b64([]byte("v: "+x)))) + "\n" }},
		{"hex", func(_, x string) string { return "payload " + hex.EncodeToString([]byte(x)) + "\n" }},
		{"percent", func(_, x string) string {
			return "GET /cb?x=%" + strings.Join(split2(hex.EncodeToString([]byte(x))), "%") + "\n"
		}},
		{"concat", func(_, x string) string { a, b := half(x); return "v := \"" + a + "\" + \"" + b + "\"\n" }},
		{"concat-lines", func(_, x string) string {
			a, b := half(x)
			c, d := half(b)
			return "const v = '" + a + "' +\n  '" + c + "' +\n  '" + d + "';\n"
		}},
		{"zero-width", func(_, x string) string {
			a, b := half(x)
			return "here: " + a[:len(a)-3] + "\u200b" + a[len(a)-3:] + "\u200d" + b + " ok\n"
		}},
	}
	want := map[string]bool{"anthropic-api": true, "openai-project": true, "aws-id": true, "google-api": true, "github-pat": true, "npm": true,
		"gitlab-pat": true, "stripe-live": true, "slack-bot": true, "sendgrid": true, "digitalocean-pat": true, "groq": true}
	var out []sample
	for _, h := range hide {
		format := "encoded-" + h.name
		for _, f := range shapes {
			if want[f.format] {
				name := format + "/" + f.format
				out = append(out, sample{name, format, h.text("", build(seeded(name), f.shape)), true, true})
			}
		}
		for i, x := range []string{"the quick brown fox jumps over the lazy dog, twice a day", "https://docs.acme-internal.io/guide/getting-started", seeded(format).str(base62, 64)} {
			out = append(out, sample{fmt.Sprintf("%s/near/%d", format, i), format, h.text("", x), false, true})
		}
	}
	return out
}

func split2(s string) []string {
	return strings.Fields(strings.ReplaceAll(lines(s, 2), "\n", " "))
}
