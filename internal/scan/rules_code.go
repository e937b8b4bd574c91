package scan

// Tokens of source hosts and of what builds and deploys from them.
var rulesCode = []rule{
	{id: "ghp", family: familyGitHub, what: "GitHub personal access token", expr: `ghp_[A-Za-z0-9]{36}`, check: crcTail,
		hits: []string{"ghp_{an 30}{crc}"}, misses: []string{"ghp_{an 20}", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}},
	{id: "gho", family: familyGitHub, what: "GitHub OAuth token", expr: `gho_[A-Za-z0-9]{36}`, check: crcTail,
		hits: []string{"gho_{an 30}{crc}"}, misses: []string{"gho_{an 20}"}},
	{id: "ghu", family: familyGitHub, what: "GitHub user-to-server token", expr: `ghu_[A-Za-z0-9]{36}`, check: crcTail,
		hits: []string{"ghu_{an 30}{crc}"}, misses: []string{"ghu_{an 20}"}},
	{id: "ghs", family: familyGitHub, what: "GitHub server-to-server token", expr: `ghs_[A-Za-z0-9]{36}`, check: crcTail,
		hits: []string{"ghs_{an 30}{crc}"}, misses: []string{"ghs_{an 20}"}},
	{id: "ghs", family: familyGitHub, what: "GitHub stateless server-to-server token", expr: `ghs_\d{1,12}_eyJ[\w-]{16,}\.[\w-]{16,}\.[\w-]{16,}`,
		hits: []string{"ghs_123987_{jwt}"}, misses: []string{"ghs_123987_eyJ.e30.x"}},
	{id: "ghr", family: familyGitHub, what: "GitHub refresh token", expr: `ghr_[A-Za-z0-9]{36,76}`, check: crcTail,
		hits: []string{"ghr_{an 30}{crc}"}, misses: []string{"ghr_{an 20}"}},
	{id: "github_fine_grained", family: familyGitHub, what: "GitHub fine-grained personal access token", expr: `github_pat_\w{82}`,
		hits: []string{"github_pat_{an 22}_{an 59}"}, misses: []string{"github_pat_{an 22}"}},
	{id: "gitlab_routable_token", family: familyCode, what: "GitLab routable token", expr: `gl(?:pat|dt|rtr|rt|ptt|ffct|ft|soat|cbt|imt|agent|oas)-[\w-]{27,300}\.[0-9a-z]{2}[0-9a-z]{7}`, words: []string{"glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glsoat-", "glcbt-", "glimt-", "glagent-", "gloas-", "glffct-", "glrtr-"},
		hits: []string{"glpat-{url 30}.01{lan 7}", "glrt-t3_{url 30}.01{lan 7}"}, misses: []string{"glpat-{url 10}.01{lan 7}"}},
	{id: "gitlab_pat", family: familyCode, what: "GitLab personal access token", expr: `glpat-[\w-]{20}`,
		hits: []string{"glpat-{an 20}"}, misses: []string{"glpat-{an 10}", "glpat-xxxxxxxxxxxxxxxxxxxx"}},
	{id: "gitlab_token", family: familyCode, what: "GitLab deploy, runner, trigger, feed, agent or application token",
		expr:  `gl(?:dt|rtr|rt|ffct|ft|imt|soat)-[\w-]{20,27}`,
		words: []string{"gldt-", "glrt-", "glft-", "glimt-", "glsoat-", "glffct-", "glrtr-"},
		hits:  []string{"gldt-{an 20}", "glrt-{an 20}", "glft-{an 20}", "glsoat-{an 20}", "glimt-{an 25}"}, misses: []string{"gldt-{an 10}"}},
	{id: "gitlab_trigger_token", family: familyCode, what: "GitLab pipeline trigger token", expr: `glptt-[a-f0-9]{40}`,
		hits: []string{"glptt-{hex 40}"}, misses: []string{"glptt-{hex 10}"}},
	{id: "gitlab_job_token", family: familyCode, what: "GitLab CI job token", expr: `glcbt-[0-9a-zA-Z]{1,5}_[\w-]{20}`,
		hits: []string{"glcbt-64_{an 20}"}, misses: []string{"glcbt-{an 4}"}},
	{id: "gitlab_agent_token", family: familyCode, what: "GitLab agent token", expr: `glagent-[\w-]{50}`,
		hits: []string{"glagent-{an 50}"}, misses: []string{"glagent-{an 10}"}},
	{id: "gitlab_oauth_secret", family: familyCode, what: "GitLab OAuth application secret", expr: `gloas-[\w-]{64}`,
		hits: []string{"gloas-{hex 64}"}, misses: []string{"gloas-{hex 10}"}},
	{id: "gitlab_runner_registration", family: familyCode, what: "GitLab runner registration token", expr: `GR1348941[\w-]{20}`,
		hits: []string{"GR1348941{an 20}"}, misses: []string{"GR1348941{an 5}"}},
	{id: "gitlab_session", family: familyCode, what: "GitLab session cookie", expr: `_gitlab_session=([a-f0-9]{32})`,
		hits: []string{"_gitlab_session={hex 32}"}, misses: []string{"_gitlab_session=$cookie"}},
	{id: "bitbucket_app_password", family: familyCode, what: "Bitbucket app password", expr: `ATBB[A-Za-z0-9]{24,40}`,
		hits: []string{"ATBB{an 24}{HEX 8}"}, misses: []string{"ATBB{an 8}"}},
	{id: "atlassian_api_token", family: familyCode, what: "Atlassian API token", expr: `ATATT3[\w=-]{180,220}`,
		hits: []string{"ATATT3xFfGF0{url 171}={HEX 8}"}, misses: []string{"ATATT3{an 20}"}},
	{id: "atlassian_access_token", family: familyCode, what: "Atlassian access token", expr: `ATCTT3[\w=-]{160,220}`,
		hits: []string{"ATCTT3xFfG{url 171}={HEX 8}"}, misses: []string{"ATCTT3{an 20}"}},
	{id: "trello_token", family: familyCode, what: "Trello API token", expr: `ATTA[a-f0-9]{64}[A-F0-9]{8}`,
		hits: []string{"ATTA{hex 64}{HEX 8}"}, misses: []string{"ATTACHMENT"}},
	{id: "azure_devops_pat", family: familyCode, what: "Azure DevOps personal access token", expr: `[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}`, check: identifiable,
		hits: []string{"{an 76}AZDO{an 4}"}, misses: []string{"{an 40}AZDO{an 4}"}},
	{id: "azure_devops_pat", family: familyCode, what: "Azure DevOps personal access token, old form", words: []string{"azure_devops", "azuredevops", "azure devops", "dev.azure.com", "azdo", "vsts", "visualstudio.com"}, within: 60, expr: `[a-z2-7]{52}`,
		hits: []string{"AZURE_DEVOPS_EXT_PAT={l32 52}"}, misses: []string{"azure_devops {l32 40}"}},
	{id: "circleci_token", family: familyCode, what: "CircleCI personal token", expr: `CCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}`,
		hits: []string{"CCIPAT_{an 22}_{hex 40}"}, misses: []string{"CCIPAT_{an 8}"}},
	{id: "sourcegraph_token", family: familyCode, what: "Sourcegraph access token", expr: `sgp_(?:[a-fA-F0-9]{16}_|local_)?[a-f0-9]{40}`,
		hits: []string{"sgp_{hex 40}", "sgp_{hex 16}_{hex 40}"}, misses: []string{"sgp_{hex 10}"}},
	{id: "sonar_token", family: familyCode, what: "SonarQube or SonarCloud token", expr: `sq[apu]_[a-f0-9]{40}`, words: []string{"sqa_", "sqp_", "squ_"},
		hits: []string{"sqp_{hex 40}", "squ_{hex 40}"}, misses: []string{"sqp_{hex 10}"}},
	{id: "buildkite_token", family: familyCode, what: "Buildkite token", expr: `bkua_[a-z0-9]{40}`,
		hits: []string{"bkua_{hex 40}"}, misses: []string{"bkua_{hex 8}"}},
	{id: "octopus_key", family: familyCode, what: "Octopus Deploy API key", expr: `API-[A-Z0-9]{26,32}`, words: []string{"API-"}, check: upperMix,
		hits: []string{"API-{uan 26}"}, misses: []string{"https://pages.acme.io/API-{HEX 32}", "API-REFERENCE", "API-VERSION2COMPATIBILITYLAYERS"}},
	{id: "harness_token", family: familyCode, what: "Harness API key", expr: `(?:pat|sat)\.[\w-]{22}\.[0-9a-f]{24}\.\w{20}`, words: []string{"pat.", "sat."},
		hits: []string{"pat.{an 22}.{hex 24}.{an 20}"}, misses: []string{"pat.{an 22}"}},
	{id: "gitea_token", family: familyCode, what: "Gitea or Forgejo token", words: []string{"gitea", "forgejo"}, within: 40, expr: `[a-f0-9]{40}`,
		hits: []string{"GITEA_TOKEN={hex 40}"}, misses: []string{"gitea {hex 20}"}},
	{id: "drone_token", family: familyCode, what: "Drone, Travis, Codecov or Codacy token", words: []string{"drone_", "travis", "codecov", "codacy", "coveralls"}, within: 40, expr: `[A-Za-z0-9]{22,36}`,
		hits: []string{"CODECOV_TOKEN={an 32}", "TRAVIS_TOKEN: {an 22}"}, misses: []string{"travis-ci.org/{low 22}"}},
	{id: "snyk_token", family: familyCode, what: "Snyk token", words: []string{"snyk"}, within: 40, expr: `[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}`,
		hits: []string{"SNYK_TOKEN={uuid}"}, misses: []string{"snyk {hex 8}"}},
}

// upperMix asks for capitals and digits in turns, as no constant has them, and
// not for a digest.
func upperMix(secret []byte) outcome {
	kind := mix(secret[4:])
	if kind.digits < 3 || kind.upper < 8 || kind.turns < 4 || onlyHex(secret[4:]) {
		return isNone
	}
	return passes
}
