// A plugin that uses its runtime: actors, task groups, casts, generics, lazy globals and names of
// types, which every copy of it has again.
import PerdurePluginKit

protocol Shape { var area: Int { get } }
protocol Named { var name: String { get } }
class Figure: Shape { var area: Int { 0 } }
final class Square: Figure, Named {
  var side = 2
  override var area: Int { side * side }
  var name: String { "square" }
}
struct Dot: Shape { var area: Int { 0 } }

actor Tally {
  private(set) var sum = 0
  func add(_ number: Int) { sum += number }
  func set(_ number: Int) { sum = number }
}

/// Made once in each copy.
let ledger = Tally()

@main struct Kit: Plugin {
  struct Odd: Error, CustomStringConvertible { var description: String { "an odd error" } }

  private let calls = Tally()

  var contributions: [Contribution] {
    [
      .tool("tally", Self.tally),
      .tool("count") { [calls] _ in
        await calls.add(1)
        return .text("\(await calls.sum)")
      },
      .tool("endless") { call in
        try await call.output("begun")
        for await _ in AsyncStream<Void>(unfolding: { try? await Task.sleep(for: .seconds(60)) }) {}
        throw CancellationError()
      },
      .tool("odd") { _ in throw Odd() },
      .snapshot(version: 1) { [calls] in ["calls": .int(await calls.sum)] },
      .restore { [calls] state, _ in await calls.set(Int(state["calls"]?.int ?? 0)) },
    ]
  }

  private static func tally(_ call: ToolCall) async throws -> ToolResult {
    let tally = Tally()
    await withTaskGroup(of: Void.self) { group in
      for number in call.arguments["numbers"]?.array ?? [] {
        group.addTask { await tally.add(Int(number.int ?? 0)) }
      }
    }
    await ledger.add(1)
    let shapes: [any Shape] = [Square(), Dot(), Figure()]
    let names = shapes.map { ($0 as? any Named)?.name ?? "nameless" }
    let areas = shapes.compactMap { ($0 as? Figure).map { AnyHashable($0.area) } }
    guard names == ["square", "nameless", "nameless"], Set(areas) == [4, 0],
      _typeName(Square.self) == "Plugin.Square", await ledger.sum > 0
    else { throw PluginError("the runtime is out of order: \(names) \(areas)") }
    let version = try await call.invoke("host.info")["plugin"]?["version"]?.text ?? "?"
    return .text("\(version): \(await tally.sum)")
  }
}
