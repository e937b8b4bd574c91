package toolbox

// SchemaVersion is the version of the surface: tools, arguments, replies,
// enums, environment. It moves by the rules of docs/governance.md, apart from
// the version of the library.
const SchemaVersion = "0.2.0"
