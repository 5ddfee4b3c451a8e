import PerdureValue
import Testing

@Suite struct JSONSchemaTests {
  private static let arguments: JSON = [
    "type": "object",
    "properties": [
      "path": ["type": "string", "minLength": 1],
      "limit": ["type": "integer", "minimum": 1],
      "all": ["type": "boolean"],
      "mode": ["enum": ["a", "b"]],
      "size": ["anyOf": [["type": "integer"], ["type": "boolean"], ["type": "null"]]],
      "tags": ["type": "array", "items": ["type": "string"]],
      "nested": ["$ref": "#/$defs/point"],
    ],
    "required": ["path"],
    "additionalProperties": false,
    "$defs": [
      "point": [
        "type": "object", "properties": ["x": ["type": "number"], "y": ["type": "number"]],
        "required": ["x"],
      ]
    ],
  ]

  private func violations(_ value: JSON) throws -> [String] {
    try JSONSchema(compiling: Self.arguments).validate(value).map(\.description)
  }

  @Test func `violations name the place and what was expected`() throws {
    #expect(
      try violations(["limit": 0, "tags": ["a", 1], "nested": ["y": "2"], "more": 1]) == [
        "path: is required", "limit: expected at least 1",
        "tags.1: expected string, found integer", "nested.x: is required",
        "nested.y: expected number, found string", "more: is not allowed",
      ]
    )
  }

  @Test func `the whole value is called root`() throws {
    #expect(try violations("x") == ["root: expected object, found string"])
  }

  @Test func `a location has a pointer with escapes`() throws {
    let schema = try JSONSchema(
      compiling: ["additionalProperties": ["items": ["type": "null"]]]
    )
    #expect(schema.validate(["a/b~c": [1]]).map(\.pointer) == ["/a~1b~0c/0"])
  }

  @Test(arguments: [
    (#"{"path":"p","limit":"5"}"#, #"{"path":"p","limit":5}"#),
    (#"{"path":"p","limit":"5.0"}"#, #"{"path":"p","limit":5}"#),
    (#"{"path":"p","limit":" 7 "}"#, #"{"path":"p","limit":7}"#),
    (#"{"path":"p","limit":"five"}"#, #"{"path":"p","limit":"five"}"#),
    (#"{"path":"p","limit":true}"#, #"{"path":"p","limit":1}"#),
    (#"{"path":"p","all":"true"}"#, #"{"path":"p","all":true}"#),
    (#"{"path":"p","all":1}"#, #"{"path":"p","all":true}"#),
    (#"{"path":"p","all":2}"#, #"{"path":"p","all":2}"#),
    (#"{"path":5}"#, #"{"path":"5"}"#),
    (#"{"path":5.5}"#, #"{"path":"5.5"}"#),
    (#"{"path":5.0}"#, #"{"path":"5"}"#),
    (#"{"path":false}"#, #"{"path":"false"}"#),
    (#"{"path":null}"#, #"{"path":""}"#),
    (#"{"path":"p","limit":null,"all":null}"#, #"{"path":"p"}"#),
    (#"{"path":"p","size":null}"#, #"{"path":"p","size":null}"#),
    (#"{"path":"p","size":"true"}"#, #"{"path":"p","size":true}"#),
    (#"{"path":"p","size":"12"}"#, #"{"path":"p","size":12}"#),
    (#"{"path":"p","tags":[1,"b"]}"#, #"{"path":"p","tags":["1","b"]}"#),
    (#"{"path":"p","nested":{"x":"1e2"}}"#, #"{"path":"p","nested":{"x":100}}"#),
    (#"{"path":"p","nested":{"x":null,"y":null}}"#, #"{"path":"p","nested":{"x":0}}"#),
  ])
  func `small mistakes are repaired`(given: String, repaired: String) throws {
    let schema = try JSONSchema(compiling: Self.arguments)
    #expect(schema.coerce(try JSON(parsing: given)).compactText == repaired)
  }

  @Test(arguments: ["additionalItems", "disallow", "divisibleBy", "nullable", "$recursiveRef"])
  func `an assertion of another draft is refused with its place`(keyword: String) throws {
    let schema: JSON = ["properties": ["a": .object([JSONString(keyword): []])]]
    #expect(throws: SchemaError.unsupportedKeyword(keyword, at: "/properties/a")) {
      try JSONSchema(compiling: schema)
    }
  }

  @Test(arguments: [
    #"{"type":"text"}"#,
    #"{"type":[]}"#,
    #"{"required":"a"}"#,
    #"{"required":[1]}"#,
    #"{"properties":[]}"#,
    #"{"minLength":-1}"#,
    #"{"maxItems":1.5}"#,
    #"{"minimum":"1"}"#,
    #"{"anyOf":[]}"#,
    #"{"items":[{}]}"#,
    #"{"exclusiveMinimum":true}"#,
    #"{"$ref":1}"#,
    #"{"enum":"a"}"#,
    #""x""#,
    #"1"#,
    #"null"#,
    #"{"allOf":{}}"#,
    #"{"not":1}"#,
    #"{"if":"x"}"#,
    #"{"multipleOf":0}"#,
    #"{"multipleOf":-2}"#,
    #"{"multipleOf":"2"}"#,
    #"{"uniqueItems":1}"#,
    #"{"prefixItems":[]}"#,
    #"{"minContains":-1}"#,
    #"{"dependentRequired":{"a":"b"}}"#,
    #"{"dependentRequired":{"a":[1]}}"#,
    #"{"dependentSchemas":[]}"#,
    #"{"dependencies":{"a":1}}"#,
    #"{"propertyNames":[]}"#,
    #"{"unevaluatedProperties":[]}"#,
    #"{"unevaluatedItems":1}"#,
    #"{"pattern":1}"#,
    #"{"pattern":"("}"#,
    #"{"patternProperties":{"[":true}}"#,
    ##"{"$id":"#a"}"##,
    #"{"$id":1}"#,
    #"{"$schema":1}"#,
    #"{"$anchor":"1a"}"#,
    #"{"$dynamicRef":1}"#,
    #"{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}"#,
    #"{"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}}"#,
  ])
  func `a keyword of the wrong kind is refused`(text: String) throws {
    let schema = try JSON(parsing: text)
    #expect(throws: SchemaError.self) { try JSONSchema(compiling: schema) }
  }

  @Test(arguments: [
    "other.json", "#anchor", "#/$defs/none", "#/$defs/%zz", "#/$defs/~2", "#/$defs/list/01",
  ])
  func `a reference that leads nowhere is refused`(reference: String) {
    let schema: JSON = ["$defs": ["list": true], "$ref": .string(reference)]
    #expect(throws: SchemaError.unresolvedReference(reference, at: "")) {
      try JSONSchema(compiling: schema)
    }
  }

  @Test(arguments: [
    ##"{"$ref":"#"}"##,
    ##"{"anyOf":[{"$ref":"#"}]}"##,
    ##"{"allOf":[{"$ref":"#"}]}"##,
    ##"{"not":{"$ref":"#"}}"##,
    ##"{"if":true,"then":{"$ref":"#"}}"##,
    ##"{"dependentSchemas":{"a":{"$ref":"#"}}}"##,
    ##"{"$dynamicRef":"#"}"##,
    ##"{"$anchor":"a","$ref":"#a"}"##,
    ##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"oneOf":[{"$ref":"#/$defs/a"}]}}}"##,
  ])
  func `an endless reference is refused`(text: String) throws {
    let schema = try JSON(parsing: text)
    let error = #expect(throws: SchemaError.self) { try JSONSchema(compiling: schema) }
    guard case .endlessReference = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test func `a recursive schema follows a deep value to its bound`() throws {
    let schema = try JSONSchema(compiling: ["type": "array", "items": ["$ref": "#"]])
    func nested(_ depth: Int) -> JSON {
      var value: JSON = []
      for _ in 1..<depth { value = [value] }
      return value
    }
    #expect(schema.validate(nested(500)).isEmpty)
    #expect(schema.validate(nested(3_000)).count == 1)
    _ = schema.coerce(nested(3_000))
  }

  @Test func `a dynamic reference without end is cut off`() throws {
    let schema = try JSONSchema(compiling: ["$dynamicAnchor": "a", "$dynamicRef": "#a"])
    #expect(schema.validate(1).map(\.message) == [Self.tooMuch])
  }

  private static let tooMuch = "the check takes too much work or nests too deeply"

  @Test(
    .timeLimit(.minutes(5)),
    arguments: [
      #"^(a+)+$"#, #"^(a|a)*$"#, #"^(a|aa)+$"#, #"(.*.*.*)*x$"#, #"^(([a-z])+.)+[A-Z]([a-z])+$"#,
      #"^(?:a?){200}a{200}$"#, #"(?=(a+)+b)(?=(a*)*b)c"#, #"(?<=(a+)+)b"#,
    ]
  )
  func `no regular expression takes time without bound`(pattern: String) throws {
    let schema = try JSONSchema(compiling: ["pattern": .string(pattern)])
    let text = String(repeating: "a", count: 10_000) + "!"
    #expect(schema.validate(.string(text)).count == 1)
  }

  @Test func `a long text is searched in proportion to its length`() throws {
    let schema = try JSONSchema(compiling: ["pattern": "^[a-z]*b$"])
    let text = String(repeating: "a", count: 300_000)
    #expect(schema.validate(.string(text + "b")).isEmpty)
    #expect(schema.validate(.string(text + "B")).count == 1)
  }

  @Test(arguments: [
    #"(a)\1"#, #"(?<n>a)\k<n>"#, #"\p{Script=Greek}"#, #"\p{Nothing}"#, "[b-a]", "a{2,1}",
    "a**", "*", "(?<a", "(?#a)", #"\x1"#, #"\u12"#, #"\u{110000}"#, #"\c1"#, "\\", #"\Z"#,
    "a{10001}",
    "((a{1000}){1000}){1000}", ")", "(a", "[a",
    String(repeating: "(", count: 5_000) + String(repeating: ")", count: 5_000),
  ])
  func `a regular expression that is wrong or not served is refused`(pattern: String) throws {
    let error = #expect(throws: SchemaError.self) {
      try JSONSchema(compiling: ["pattern": .string(pattern)])
    }
    guard case .invalidKeyword("pattern", at: "", let expected)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(expected.hasPrefix("a regular expression that can be used: "))
  }

  static let matches: [(pattern: String, text: String, isMatch: Bool)] = [
    ("", "", true), ("a|b", "xb", true), ("^(?:a|b)$", "c", false), ("a{2}", "aba", false),
    ("a{2}", "baa", true), ("^a{2,}$", "aaaa", true), ("^a{1,2}$", "aaa", false),
    ("a{,2}", "a{,2}", true), ("x{", "x{", true), ("^a??b$", "ab", true),
    ("^[^a-c]+$", "xyz", true), ("^[^a-c]+$", "xbz", false), ("^[]$", "", false),
    ("^[\\w-]+$", "a-b", true), ("^[a\\-z]+$", "b", false), ("[\\]]", "]", true),
    ("^.$", "\u{1F432}", true), ("^.$", "\n", false), ("^\\u{1F432}$", "\u{1F432}", true),
    ("^\\uD83D\\uDC32$", "\u{1F432}", true), ("\\bfoo\\b", "a foo b", true),
    ("\\bfoo\\b", "afoo", false), ("foo\\B", "foob", true), ("^\\d+(?=%)", "50%", true),
    ("^\\d+(?=%)", "50", false), ("^(?!con$).*", "con", false), ("^(?!con$).*", "cone", true),
    ("(?<=\\$)\\d", "$5", true), ("(?<=\\$)\\d", "5", false), ("(?<!a)b", "ab", false),
    ("(?<!a)b", "cb", true), ("(?<=ab)c", "abc", true), ("(?<=ab)c", "bac", false),
    ("(?<year>\\d{4})", "2026", true), ("^\\p{Lu}\\P{Lu}+$", "Ärger", true),
    ("^\\p{gc=Nd}+$", "\u{0663}", true), ("^[\\p{L}_]+$", "ö_", true), ("^(a*)*$", "aab", false),
    ("^(|a)+$", "aaa", true), ("(^|,)x(,|$)", "a,x", true), ("a.c", "a\u{2028}c", false),
    ("^\\s$", "\u{FEFF}", true), ("^\\cJ$", "\n", true), ("^\\x41\\0$", "A\u{0}", true),
  ]

  @Test(arguments: matches)
  func `regular expressions mean what they mean in ECMAScript`(
    pattern: String,
    text: String,
    isMatch: Bool
  ) throws {
    let schema = try JSONSchema(compiling: ["pattern": .string(pattern)])
    #expect(schema.validate(.string(text)).isEmpty == isMatch)
  }

  static let multiples: [(value: String, divisor: String, fits: Bool)] = [
    ("10", "5", true), ("11", "5", false), ("0", "3", true), ("-9", "3", true),
    ("0.0075", "0.0001", true),
    ("0.00751", "0.0001", false), ("1.1", "0.1", true), ("-1.15", "0.1", false),
    ("1e308", "0.5", true), ("1e308", "0.123456789", false), ("5e-324", "5e-324", true),
    ("12345678901234567890123", "3", true), ("12345678901234567890124", "3", false),
    ("100", "1e2", true), ("150", "1e2", false), ("1e22", "1e21", true),
    ("-9223372036854775808", "2", true), ("9007199254740993", "2", false),
  ]

  @Test(arguments: multiples)
  func `multiples are exact`(value: String, divisor: String, fits: Bool) throws {
    let schema = try JSONSchema(compiling: ["multipleOf": try JSON(parsing: divisor)])
    #expect(schema.validate(try JSON(parsing: value)).isEmpty == fits)
  }

  static let messages: [(schema: String, value: String, messages: [String])] = [
    (
      #"{"allOf":[{"required":["a"]},{"required":["b"]}]}"#, "{}",
      ["a: is required", "b: is required"]
    ),
    (#"{"not":{}}"#, "1", ["root: fits what it must not fit"]),
    (
      #"{"if":{"type":"string"},"then":{"minLength":2}}"#, #""a""#,
      ["root: expected at least 2 characters, found 1"]
    ),
    (
      #"{"prefixItems":[{"type":"null"}],"items":false}"#, "[1,2]",
      ["0: expected null, found integer", "1: is not allowed"]
    ),
    (#"{"contains":{"const":1}}"#, "[2]", ["root: expected at least 1 items of a kind, found 0"]),
    (
      #"{"maxContains":1,"contains":true}"#, "[1,2]",
      ["root: expected at most 1 items of a kind, found 2"]
    ),
    (#"{"uniqueItems":true}"#, "[1,[2],1.0]", ["root: has the same item at 0 and 2"]),
    (#"{"multipleOf":0.5}"#, "0.7", ["root: expected a multiple of 0.5"]),
    (#"{"pattern":"^a"}"#, #""b""#, [#"root: expected a match of "^a""#]),
    (
      #"{"patternProperties":{"^x":{"type":"null"}}}"#, #"{"xa":1,"y":1}"#,
      ["xa: expected null, found integer"]
    ),
    (#"{"propertyNames":{"maxLength":1}}"#, #"{"ab":1}"#, ["ab: has a name that is not allowed"]),
    (#"{"dependentRequired":{"a":["b"]}}"#, #"{"a":1}"#, ["b: is required beside a"]),
    (#"{"minProperties":1}"#, "{}", ["root: expected at least 1 members, found 0"]),
    (#"{"maxProperties":0}"#, #"{"a":1}"#, ["root: expected at most 0 members, found 1"]),
    (
      #"{"unevaluatedProperties":false,"allOf":[{"properties":{"a":true}}]}"#, #"{"a":1,"b":2}"#,
      ["b: is not allowed"]
    ),
    (#"{"unevaluatedItems":false,"prefixItems":[true]}"#, "[1,2]", ["1: is not allowed"]),
  ]

  @Test(arguments: messages)
  func `each keyword says what it misses`(
    schema: String,
    value: String,
    messages: [String]
  ) throws {
    let schema = try JSONSchema(compiling: try JSON(parsing: schema))
    #expect(schema.validate(try JSON(parsing: value)).map(\.description) == messages)
  }

  @Test func `items that are to differ are compared in proportion to their number`() throws {
    let schema = try JSONSchema(compiling: ["uniqueItems": true])
    #expect(schema.validate(.array((0..<200_000).map { .int($0) })).isEmpty)
  }

  @Test func `schemas that look for what others left are bounded`() throws {
    var schema: JSON = ["additionalProperties": true]
    for _ in 0..<60 { schema = ["allOf": [schema], "unevaluatedProperties": false] }
    var members = JSONObject()
    for number in 0..<10_000 { members[JSONString("m\(number)")] = 1 }
    let check = try JSONSchema(compiling: schema).validate(.object(members))
    #expect(check.isEmpty || check.map(\.message) == [Self.tooMuch])
  }

  @Test func `alternatives that multiply are cut off`() throws {
    var definitions: JSONObject = ["s60": ["type": "string"]]
    for level in 0..<60 {
      let next: JSON = ["$ref": .string("#/$defs/s\(level + 1)")]
      definitions[JSONString("s\(level)")] = ["anyOf": [next, next]]
    }
    #expect(throws: SchemaError.self) {
      try JSONSchema(compiling: ["$defs": .object(definitions), "$ref": "#/$defs/s0"])
    }
    let start: JSON = ["$ref": "#/$defs/s35"]
    let schema = try JSONSchema(compiling: ["items": start, "$defs": .object(definitions.from(35))])
    #expect(schema.validate([5]).count == 1)
    #expect(schema.coerce([5]) == [5] || schema.coerce([5]) == ["5"])
  }

  @Test func `a wide or deep document compiles in proportion to its size`() throws {
    var deep: JSON = ["type": "string"]
    for _ in 0..<400 {
      deep = ["properties": [JSONString(String(repeating: "k", count: 500)): deep]]
    }
    #expect(try JSONSchema(compiling: deep).validate([:]).isEmpty)
    var many = JSONObject()
    for number in 0..<110_000 { many[JSONString("p\(number)")] = true }
    #expect(throws: SchemaError.tooLarge(at: "/properties/p109999")) {
      try JSONSchema(compiling: ["properties": .object(many)])
    }
  }
}

extension JSONObject {
  /// The members whose key is `s` and a number from `first` on.
  fileprivate func from(_ first: Int) -> JSONObject {
    JSONObject(
      self.filter { Int($0.key.string.dropFirst()).map { $0 >= first } ?? false }
        .map { ($0.key, $0.value) }
    )
  }
}
