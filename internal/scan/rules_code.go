package scan

// Tokens of source hosts and of what builds and deploys from them.
var rulesCode = []rule{
	{id: "ghp", family: familyGitHub, what: "GitHub personal access token", expr: `ghp_[A-Za-z0-9]{36}`, check: crcTail},
	{id: "gho", family: familyGitHub, what: "GitHub OAuth token", expr: `gho_[A-Za-z0-9]{36}`, check: crcTail},
	{id: "ghu", family: familyGitHub, what: "GitHub user-to-server token", expr: `ghu_[A-Za-z0-9]{36}`, check: crcTail},
	{id: "ghs", family: familyGitHub, what: "GitHub server-to-server token", expr: `ghs_[A-Za-z0-9]{36}`, check: crcTail},
	{id: "ghs", family: familyGitHub, what: "GitHub stateless server-to-server token", expr: `ghs_\d{1,12}_eyJ[\w-]{16,}\.[\w-]{16,}\.[\w-]{16,}`},
	{id: "ghr", family: familyGitHub, what: "GitHub refresh token", expr: `ghr_[A-Za-z0-9]{36,76}`, check: crcTail},
	{id: "github_fine_grained", family: familyGitHub, what: "GitHub fine-grained personal access token", expr: `github_pat_\w{82}`},
	{id: "gitlab_routable_token", family: familyCode, what: "GitLab routable token", expr: `gl(?:pat|dt|rtr|rt|ptt|ffct|ft|soat|cbt|imt|agent|oas)-[\w-]{27,300}\.[0-9a-z]{2}[0-9a-z]{7}`,
		words: []string{"glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glsoat-", "glcbt-", "glimt-", "glagent-", "gloas-", "glffct-", "glrtr-"}},
	{id: "gitlab_pat", family: familyCode, what: "GitLab personal access token", expr: `glpat-[\w-]{20}`},
	{id: "gitlab_token", family: familyCode, what: "GitLab deploy, runner, trigger, feed, agent or application token", expr: `gl(?:dt|rtr|rt|ffct|ft|imt|soat)-[\w-]{20,27}`,
		words: []string{"gldt-", "glrt-", "glft-", "glimt-", "glsoat-", "glffct-", "glrtr-"}},
	{id: "gitlab_trigger_token", family: familyCode, what: "GitLab pipeline trigger token", expr: `glptt-[a-f0-9]{40}`},
	{id: "gitlab_job_token", family: familyCode, what: "GitLab CI job token", expr: `glcbt-[0-9a-zA-Z]{1,5}_[\w-]{20}`},
	{id: "gitlab_agent_token", family: familyCode, what: "GitLab agent token", expr: `glagent-[\w-]{50}`},
	{id: "gitlab_oauth_secret", family: familyCode, what: "GitLab OAuth application secret", expr: `gloas-[\w-]{64}`},
	{id: "gitlab_runner_registration", family: familyCode, what: "GitLab runner registration token", expr: `GR1348941[\w-]{20}`},
	{id: "gitlab_session", family: familyCode, what: "GitLab session cookie", expr: `_gitlab_session=([a-f0-9]{32})`},
	{id: "bitbucket_app_password", family: familyCode, what: "Bitbucket app password", expr: `ATBB[A-Za-z0-9]{24,40}`},
	{id: "atlassian_api_token", family: familyCode, what: "Atlassian API token", expr: `ATATT3[\w=-]{180,220}`},
	{id: "atlassian_access_token", family: familyCode, what: "Atlassian access token", expr: `ATCTT3[\w=-]{160,220}`},
	{id: "trello_token", family: familyCode, what: "Trello API token", expr: `ATTA[a-f0-9]{64}[A-F0-9]{8}`},
	{id: "azure_devops_pat", family: familyCode, what: "Azure DevOps personal access token", expr: `[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}`, check: identifiable},
	{id: "azure_devops_pat", family: familyCode, what: "Azure DevOps personal access token, old form", words: []string{"azure_devops", "azuredevops", "azure devops", "dev.azure.com", "azdo", "vsts", "visualstudio.com"}, within: 60,
		expr: `[a-z2-7]{52}`},
	{id: "circleci_token", family: familyCode, what: "CircleCI personal token", expr: `CCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}`},
	{id: "sourcegraph_token", family: familyCode, what: "Sourcegraph access token", expr: `sgp_(?:[a-fA-F0-9]{16}_|local_)?[a-f0-9]{40}`},
	{id: "sonar_token", family: familyCode, what: "SonarQube or SonarCloud token", expr: `sq[apu]_[a-f0-9]{40}`, words: []string{"sqa_", "sqp_", "squ_"}},
	{id: "buildkite_token", family: familyCode, what: "Buildkite token", expr: `bkua_[a-z0-9]{40}`},
	{id: "octopus_key", family: familyCode, what: "Octopus Deploy API key", expr: `API-[A-Z0-9]{26,32}`, words: []string{"API-"}, check: upperMix},
	{id: "harness_token", family: familyCode, what: "Harness API key", expr: `(?:pat|sat)\.[\w-]{22}\.[0-9a-f]{24}\.\w{20}`, words: []string{"pat.", "sat."}},
	{id: "gitea_token", family: familyCode, what: "Gitea or Forgejo token", words: []string{"gitea", "forgejo"}, within: 40, expr: `[a-f0-9]{40}`},
	{id: "drone_token", family: familyCode, what: "Drone, Travis, Codecov or Codacy token", words: []string{"drone_", "travis", "codecov", "codacy", "coveralls"}, within: 40, expr: `[A-Za-z0-9]{22,36}`},
	{id: "snyk_token", family: familyCode, what: "Snyk token", words: []string{"snyk"}, within: 40, expr: `[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}`},
}

// upperMix asks for capitals and digits in turns, as no constant has them, and
// not for a digest.
func upperMix(secret []byte) outcome {
	if onlyHex(secret[4:]) {
		return isNone
	}
	return upperTurns(secret)
}

var upperTurns = made(4, 1, func(m *shape) bool { return m.digits > 2 && m.upper > 7 && m.turns > 3 })
