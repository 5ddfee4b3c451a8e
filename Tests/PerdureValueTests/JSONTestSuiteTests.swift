import PerdureValue
import Testing

@Suite struct JSONTestSuiteTests {
  private static let folder = "JSONTestSuite/test_parsing"

  private static func files(_ verdict: String) throws -> [String] {
    try Fixtures.paths(in: folder).filter { $0.hasPrefix("\(folder)/\(verdict)_") }
  }

  @Test(arguments: try files("y"))
  func `what is JSON is parsed and survives printing`(file: String) throws {
    let value = try JSON(parsing: Fixtures.bytes(file))
    let again = try JSON(parsing: value.encoded)
    #expect(again == value)
    #expect(again.encoded == value.encoded)
  }

  @Test(arguments: try files("n"))
  func `what is not JSON is refused`(file: String) throws {
    let bytes = try Fixtures.bytes(file)
    #expect(throws: JSONError.self) { try JSON(parsing: bytes) }
  }

  // The suite's own two files of this kind are large, so they are made here.
  @Test(arguments: ["[", #"[{"":"#])
  func `a hundred thousand open brackets are refused`(unit: String) {
    let text = String(repeating: unit, count: unit == "[" ? 100_000 : 50_000)
    #expect(throws: JSONError.self) { try JSON(parsing: text) }
  }

  @Test(arguments: try files("i"))
  func `what the standard leaves open does not crash`(file: String) throws {
    let bytes = try Fixtures.bytes(file)
    if let value = try? JSON(parsing: bytes) {
      #expect(try JSON(parsing: value.encoded) == value)
    }
  }
}
