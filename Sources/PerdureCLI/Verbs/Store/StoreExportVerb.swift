import Perdure
import PerdureModel
import PerdureValue

/// `perdure store export`: all that a store holds as JSON lines.
enum StoreExportVerb {
  static let verb = Verb(
    name: "store export",
    summary: "write all that a store holds as JSON lines",
    options: StoreVerbs.storeOption,
    positionals: ["[FILE]"],
    notes: """
      It writes to FILE, which must name nothing, or to standard output. The lines are those
      that 'perdure store import' reads; the page "Checking, backing up and moving a store" of
      the documentation describes them.
      """,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let address = try StoreAddress(arguments)
    let site = try address.existingSite(isNamed: arguments.has("store"))
    guard let file = arguments.positionals.first, file != "-" else {
      _ = try await StoreExport.run(site) { bytes in
        HostText.queueOutput(bytes)
        return HostText.waitForOutput()
      }
      return .ok
    }
    let path = HostText.absolutePath(file)
    let count = try await StoreExport.run(site, to: path)
    reporter.print("exported \(address.text) to \(path) (\(Counted.text(Int(count), "line")))")
    return .ok
  }
}
