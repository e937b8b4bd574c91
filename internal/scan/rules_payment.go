package scan

// Keys of payment services.
var rulesPayment = []rule{
	{id: "stripe_secret_key", family: familyPayment, what: "Stripe secret or restricted key", expr: `(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{16,250}`,
		words: []string{"sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"}, entropy: 2.6},
	{id: "stripe_webhook_secret", family: familyPayment, what: "Stripe webhook signing secret", expr: `whsec_[A-Za-z0-9+/]{24,70}=?`},
	{id: "square_access_token", family: familyPayment, what: "Square access token", expr: `sq0atp-[\w-]{22}`},
	{id: "square_secret", family: familyPayment, what: "Square OAuth secret", expr: `sq0csp-[\w-]{43}`},
	{id: "square_access_token", family: familyPayment, what: "Square access token", expr: `EAAA[\w-]{56,60}`, entropy: 4.5, starts: true, place: inToken, look: lookApart, check: mixedCase},
	{id: "braintree_access_token", family: familyPayment, what: "PayPal Braintree access token", expr: `access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}`},
	{id: "shopify_token", family: familyPayment, what: "Shopify token or shared secret", expr: `shp(?:at|ca|pa|ss|tka|ua)_[a-fA-F0-9]{32}`, words: []string{"shpat_", "shpca_", "shppa_", "shpss_", "shptka_", "shpua_"}},
	{id: "plaid_access_token", family: familyPayment, what: "Plaid access token", expr: `access-(?:sandbox|development|production)-` + exprUUID},
	{id: "plaid_secret", family: familyPayment, what: "Plaid secret", words: []string{"plaid"}, within: 40, expr: `[a-f0-9]{30}`},
	{id: "adyen_key", family: familyPayment, what: "Adyen API key", expr: `AQE[a-z][\w+/-]{40,400}={0,2}(?:-[\w+/=-]{10,200})?`,
		words: []string{"AQEyh", "AQElh", "AQEmh", "AQEqh", "AQErh", "AQEth", "AQEnh", "AQEoh", "AQEph", "AQEsh", "AQEuh", "AQEvh", "AQEwh", "AQExh", "AQEzh", "AQEkh", "AQEhh", "AQEjh", "AQEih", "AQEfh", "AQEgh"}},
	{id: "adyen_key", family: familyPayment, what: "Adyen API key, named", words: []string{"adyen"}, within: 40, expr: `AQE[A-Za-z0-9+/=.^*%\[\]{}~-]{40,400}`},
	{id: "razorpay_key", family: familyPayment, what: "Razorpay key id", expr: `rzp_(?:live|test)_[A-Za-z0-9]{14}`},
	{id: "flutterwave_key", family: familyPayment, what: "Flutterwave secret or encryption key", expr: `FLWSECK(?:_TEST|_PROD)?-[a-hA-H0-9]{12,32}(?:-X)?`},
	{id: "easypost_key", family: familyPayment, what: "EasyPost API key", expr: `EZ[AT]K[A-Za-z0-9]{54}`, words: []string{"EZAK", "EZTK"}},
	{id: "duffel_token", family: familyPayment, what: "Duffel access token", expr: `duffel_(?:test|live)_[\w=-]{43}`},
	{id: "shippo_token", family: familyPayment, what: "Shippo API token", expr: `shippo_(?:live|test)_[a-fA-F0-9]{40}`},
	{id: "lob_key", family: familyPayment, what: "Lob API key", words: []string{"lob"}, within: 30, expr: `(?:live|test)_[a-f0-9]{35}`},
	{id: "coinbase_key", family: familyPayment, what: "Coinbase access token", words: []string{"coinbase"}, within: 40, expr: `[\w-]{64}`},
	{id: "kraken_key", family: familyPayment, what: "Kraken access token", words: []string{"kraken"}, within: 40, expr: `[A-Za-z0-9+/=]{80,90}`},
	{id: "mercadopago_token", family: familyPayment, what: "Mercado Pago access token", expr: `APP_USR-\d{10,20}-\d{6}-[a-f0-9]{32}-\d{6,12}`},
}
