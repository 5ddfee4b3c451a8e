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

  @Test(arguments: ["allOf", "pattern", "not", "uniqueItems", "multipleOf", "$dynamicRef"])
  func `an assertion that is not served is refused with its place`(keyword: String) throws {
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
