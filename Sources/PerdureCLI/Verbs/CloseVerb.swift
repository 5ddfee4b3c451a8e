import Perdure
import PerdureModel
import PerdureValue

/// `perdure close`: the process that works on a store ends.
enum CloseVerb {
  static let verb = Verb(
    name: "close",
    summary: "let the process that works on a store end; unfinished work can be resumed",
    options: StoreChange.options + [
      Option(name: "abort", help: "abort the unfinished work of the store before")
    ],
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let address = try StoreAddress(arguments)
    if case .memory = address { throw StoreAddress.gone }
    guard let client = try ControlClient.connect(address) else {
      guard address.exists else { throw address.missing(isNamed: arguments.has("store")) }
      guard let owner = address.owner else {
        StoreChange.say(
          "nobody works on \(address.text)",
          ["store": .string(address.text), "closed": false],
          reporter
        )
        return .ok
      }
      throw PerdureError(
        .storeInUse,
        "process \(owner) works on \(address.text) and takes no requests",
        hint: "end it with `kill \(owner)`"
      )
    }
    do {
      _ = try await client.ask("close", ["abort": .bool(arguments.has("abort"))])
    } catch let error as PerdureError where error.code == "host_gone" {
      // It was quicker than its answer.
    }
    await client.isGone.value
    StoreChange.say(
      "closed \(address.text)",
      ["store": .string(address.text), "closed": true],
      reporter
    )
    return .ok
  }
}
