package scan

import "bytes"

// Tokens of package registries.
var rulesRegistry = []rule{
	{id: "npm_token", family: familyRegistry, what: "npm access token", expr: `npm_[A-Za-z0-9]{36}`, check: crcTail},
	{id: "npmrc_auth", family: familyRegistry, what: "Password or token in .npmrc", words: []string{"_authtoken", "_auth ", "_auth=", "_password"}, look: lookNpmrc},
	{id: "pypi_token", family: familyRegistry, what: "PyPI upload token", expr: `pypi-AgEIcHlwaS5vcmc[\w-]{50,1000}`, words: []string{"pypi-AgEI"}},
	{id: "testpypi_token", family: familyRegistry, what: "TestPyPI upload token", expr: `pypi-AgENdGVzdC5weXBpLm9yZw[\w-]{50,1000}`, words: []string{"pypi-AgEN"}},
	{id: "rubygems_key", family: familyRegistry, what: "RubyGems API key", expr: `rubygems_[a-f0-9]{48}`},
	{id: "cargo_token", family: familyRegistry, what: "crates.io API token", expr: `cio[A-Za-z0-9]{32}`, check: mixedCase},
	{id: "nuget_key", family: familyRegistry, what: "NuGet API key", expr: `oy2[a-z0-9]{43}`},
	{id: "docker_token", family: familyRegistry, what: "Docker Hub access token", expr: `dckr_[po]at_[\w-]{27,32}`, words: []string{"dckr_pat_", "dckr_oat_"}},
	{id: "docker_auth", family: familyRegistry, what: "Credentials in a Docker configuration", words: []string{`"auth"`, `\"auth\"`}, look: lookDockerAuth},
	{id: "artifactory_key", family: familyRegistry, what: "Artifactory API key", expr: `AKCp[A-Za-z0-9]{69}`},
	{id: "artifactory_token", family: familyRegistry, what: "Artifactory reference token", expr: `cmVmdGtu[A-Za-z0-9]{56}`},
	{id: "clojars_token", family: familyRegistry, what: "Clojars API token", expr: `(?i)CLOJARS_[a-z0-9]{60}`},
	{id: "packagist_token", family: familyRegistry, what: "Packagist token", expr: `packagist_[ou][ru]t_[a-f0-9]{68}`},
}

// lookNpmrc finds what a line of .npmrc assigns.
func lookNpmrc(t *text, r *rule, pos, end int) {
	if pos > 0 && !isSpace(t.b[pos-1]) && t.b[pos-1] != ':' && t.b[pos-1] != '"' {
		return
	}
	if last := t.b[end-1]; last == ' ' || last == '=' {
		end--
	}
	v, ok := t.assigned(end)
	if !ok {
		return
	}
	value := t.b[v.from:v.to]
	if s := measured(value); bytes.ContainsAny(value, "(){}<>[]") || variable(value) || s.placeholder(value) || s.weakPassword(value) || len(value) < 16 || s.digits == 0 || s.entropy < 3 {
		return
	}
	t.add(r, v.start, v.end, v.from, v.to, Confirmed)
}

// lookDockerAuth finds user:password in base64.
func lookDockerAuth(t *text, r *rule, pos, end int) {
	v, ok := t.assigned(end)
	if !ok || !v.quoted || v.to-v.from < 8 || !userPassword(t.b[v.from:v.to]) {
		return
	}
	t.add(r, v.start, v.end, v.from, v.to, Confirmed)
}
