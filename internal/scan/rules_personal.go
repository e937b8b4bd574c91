package scan

// Personal data. Those without a keyword are found by numbers.
var rulesPersonal = []rule{
	{id: "email", family: familyPII, what: "E-mail address", words: nil, confidence: Info,
		hits: []string{"jane.{low 6}@acme-corp.io"}, misses: []string{"user@example.com", "npm i @scope/name@1.2.3", "git@"}},
	{id: "ssn", family: familyPII, what: "US social security number", confidence: Likely,
		hits: []string{"SSN 536-22-8714"}, misses: []string{"000-12-3456", "666-12-3456", "912-12-3456", "078-05-1120", "123-45-67890"}},
	{id: "payment_card", family: familyPII, what: "Payment card number", confidence: Likely,
		hits: []string{"{card 453201}", "{card 510510}"}, misses: []string{"4111111111111111", "4532015112830367", "1234567812345670"}},
	{id: "iban", family: familyPII, what: "International bank account number", confidence: Likely,
		hits: []string{"DE02120300000000202051", "GB33 BUKB 2020 1555 5555 55"}, misses: []string{"DE02120300000000202052", "XX02120300000000202051"}},
	{id: "phone", family: familyPII, what: "Telephone number in international form", confidence: Info,
		hits: []string{"call +49 30 90182634", "+1 (415) 867-5309"}, misses: []string{"1.415.867.5309", "2026-10-02 08:14:55", "+123456"}},
}
