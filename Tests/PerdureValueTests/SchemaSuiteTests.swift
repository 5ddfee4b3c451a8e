import PerdureValue
import Testing

/// JSON-Schema-Test-Suite for 2020-12, all of it but what asserts formats.
@Suite struct SchemaSuiteTests {
  private static let folder = "JSONSchemaTestSuite/draft2020-12"

  private static func files() throws -> [String] {
    try Fixtures.paths(in: folder) + Fixtures.paths(in: "\(folder)/optional")
  }

  @Test(arguments: try files())
  func `each schema gives the verdicts of the suite or is refused by name`(file: String) throws {
    let name = String(file.dropFirst(Self.folder.count + 1))
    for group in try JSON(parsing: Fixtures.bytes(file)).array ?? [] {
      let title = "\(name): \(try #require(group["description"]?.text))"
      let schema: JSONSchema
      do {
        schema = try JSONSchema(compiling: try #require(group["schema"]))
        #expect(refusedGroups[title] == nil, "\(title) is accepted")
      } catch let error as SchemaError {
        #expect(refusedGroups[title] == reason(error), "\(title): \(error)")
        continue
      }
      for test in group["tests"]?.array ?? [] {
        let isValid = schema.validate(try #require(test["data"])).isEmpty
        #expect(isValid == test["valid"]?.bool, "\(title): \(test["description"]?.text ?? "")")
      }
    }
  }

  private func reason(_ error: SchemaError) -> String {
    switch error {
    case .unsupportedKeyword(let keyword, _): keyword
    case .invalidKeyword(let keyword, _, _): "invalid \(keyword)"
    case .unresolvedReference(let reference, _): "reference \(reference)"
    case .endlessReference: "endless"
    case .tooLarge: "too large"
    }
  }
}
