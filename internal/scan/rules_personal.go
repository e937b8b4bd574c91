package scan

// Personal data. Those without a keyword are found by numbers.
var rulesPersonal = []rule{
	{id: "email", family: familyPII, what: "E-mail address", confidence: Info, alone: emailRule},
	{id: "ssn", family: familyPII, what: "US social security number", confidence: Likely, alone: ssnRule},
	{id: "payment_card", family: familyPII, what: "Payment card number", confidence: Likely, alone: cardRule},
	{id: "iban", family: familyPII, what: "International bank account number", confidence: Likely, alone: ibanRule},
	{id: "phone", family: familyPII, what: "Telephone number in international form", confidence: Info, alone: phoneRule},
}
