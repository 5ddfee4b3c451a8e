import Perdure
import PerdureModel
import PerdureValue

/// `perdure store backup`: a copy of a store, while it is used.
enum StoreBackupVerb {
  static let verb = Verb(
    name: "store backup",
    summary: "copy a store while it is used",
    options: StoreVerbs.storeOption + [Option(name: "json", help: "write one JSON object")],
    positionals: ["DEST"],
    notes: """
      The copy holds what was committed at one moment, and is a store of the same kind. DEST
      must name nothing; until the copy is complete it is called DEST.partial.

      Exit status: 0 the copy is made, 1 it is made of a damaged store, or was not made.
      """,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let address = try StoreAddress(arguments)
    let site = try address.existingSite(isNamed: arguments.has("store"))
    guard let named = arguments.positionals.first, !named.isEmpty else {
      throw UsageError.make("DEST names nothing", "give the path of the copy")
    }
    if site.format == .sqlite, named.hasSuffix("/") {
      throw UsageError.make(
        "the copy of a store in a file is a file, and a slash ends \(named)",
        "leave the slash out, or name a file behind it"
      )
    }
    let path = HostText.absolutePath(named)
    let damage = try await StoreBackup.run(site, to: path)
    if reporter.isJSON {
      let object: JSON = [
        "store": .string(address.text), "backup": .string(path), "findings": .int(damage.count),
      ]
      reporter.printStyled(String(decoding: EventLine.bytes(object), as: UTF8.self))
    } else {
      reporter.print("copied \(address.text) to \(path)")
    }
    guard let first = damage.first else { return .ok }
    throw PerdureError(
      .init(rawValue: "backup_of_damage"),
      "the store \(address.text) is damaged, and so is the copy of it that was made",
      hint: "'perdure store check' names the damage",
      cause: first.description
    )
  }
}
