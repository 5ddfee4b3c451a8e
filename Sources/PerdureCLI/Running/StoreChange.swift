import Perdure
import PerdureModel
import PerdureValue

/// What the verbs that change a store without running it have in common.
enum StoreChange {
  static let options = RunOptions.forOwnStores.compactMap { option -> Option? in
    var option = option
    switch option.name {
    case "store": return option
    case "json":
      option.help = "write one JSON object"
      return option
    default: return nil
    }
  }

  /// Opens the store that is there, lets `body` change it, and releases it.
  static func run<Result>(
    _ arguments: ParsedArguments,
    _ body: (OpenStore) async throws -> Result
  ) async throws -> Result {
    let address = try StoreAddress(arguments)
    let store = try await address.openExisting(isNamed: arguments.has("store"))
    do {
      let result = try await body(store)
      await store.close()
      return result
    } catch {
      await store.close()
      throw Remedy.named(error, address)
    }
  }

  /// Does the same for one conversation, which must be there.
  static func run<Result>(
    on id: ConversationID,
    _ arguments: ParsedArguments,
    _ body: (OpenStore) async throws -> Result
  ) async throws -> Result {
    let address = try StoreAddress(arguments)
    return try await run(arguments) { store in
      guard try await store.reader.reads.conversation(id) != nil else {
        throw try await address.missing(id, store.reader)
      }
      return try await body(store)
    }
  }

  /// Returns the conversation that is named behind the verb.
  static func conversation(_ arguments: ParsedArguments) throws -> ConversationID {
    let text = arguments.positionals.first ?? ""
    guard let value = Int64(text), let id = ConversationID(value) else {
      throw UsageError.make("'\(text)' is no conversation", "give its number")
    }
    return id
  }

  /// Says what was done, in the form that was asked for.
  static func say(_ sentence: String, _ object: JSON, _ reporter: Reporter) {
    if reporter.isJSON {
      reporter.printStyled(String(decoding: EventLine.bytes(object), as: UTF8.self))
    } else {
      reporter.print(sentence)
    }
  }
}
