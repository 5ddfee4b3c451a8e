import Foundation
import Testing

/// The page that is made of the comments of `perdure.h`.
@Suite struct HeaderReferenceTests {
  private static let source = Fixtures.root.appending(
    path: "Sources/CPerdureABI/include/perdure.h"
  )
  private static let page = Fixtures.root.appending(path: "docs/perdure-h.md")

  static let header = (try? String(contentsOf: source, encoding: .utf8)) ?? ""
  static let reference = HeaderReference(header: header)

  @Test func `the page is the one that the header makes`() throws {
    let made = Self.reference.page
    if ProcessInfo.processInfo.environment["PERDURE_WRITE_REFERENCE"] == "1" {
      try made.write(to: Self.page, atomically: true, encoding: .utf8)
    }
    let checkedIn = try String(contentsOf: Self.page, encoding: .utf8)
    #expect(checkedIn == made, "write it anew with PERDURE_WRITE_REFERENCE=1")
  }

  @Test func `no function of the header is left out`() {
    let pointers = Self.header.matches(of: /\(\*(\w+)\)\(/).map { String($0.1) }
    #expect(Self.reference.functions.map(\.name) == pointers + ["perdure_plugin_1"])
  }

  @Test(arguments: reference.functions.map { [$0.owner, $0.name].joined(separator: ".") })
  func `the comment of a function names threads, ownership and failure`(name: String) throws {
    let function = try #require(
      Self.reference.functions.first { [$0.owner, $0.name].joined(separator: ".") == name }
    )
    #expect(!function.text.isEmpty)
    for note in HeaderReference.notes { #expect(function.notes[note]?.isEmpty == false, "\(note)") }
    #expect(
      function.notes["Threads"]?.contains(/\[(any|call|control)\] \[(may|must-not)-block\]/) == true
    )
  }
}
