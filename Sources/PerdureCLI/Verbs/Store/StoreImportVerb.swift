import Perdure
import PerdureModel
import PerdureValue

/// `perdure store import`: a store made of an export.
enum StoreImportVerb {
  static let verb = Verb(
    name: "store import",
    summary: "make a store of what 'store export' wrote",
    options: [
      Option(
        name: "store",
        value: "PATH",
        help: "the new store, which must not exist: a SQLite file, or a\n"
          + "folder of JSON lines if a slash ends it"
      ),
      Option(name: "json", help: "write one JSON object"),
    ],
    positionals: ["FILE"],
    notes: """
      FILE may be - for standard input. All numbers are kept: exporting the new store gives
      the same bytes. Until it is complete the store is called PATH.partial.
      """,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    guard arguments.has("store") else {
      throw UsageError.make("store import needs --store", "write --store PATH")
    }
    let site = try StoreAddress(arguments).site()
    let file = arguments.positionals.first ?? ""
    let path = file == "-" ? "/dev/stdin" : HostText.absolutePath(file)
    let count = try await StoreImport.run(path, into: site)
    if reporter.isJSON {
      let object: JSON = ["store": .string(site.path), "lines": .int(count)]
      reporter.printStyled(String(decoding: EventLine.bytes(object), as: UTF8.self))
    } else {
      reporter.print("imported \(Counted.text(Int(count), "line")) into \(site.path)")
    }
    return .ok
  }
}
