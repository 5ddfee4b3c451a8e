// The small host inside a program in Swift with a runtime of its own, which works meanwhile: the
// runtime of the plugin is another copy, and neither may take notice of the other.

import Glibc

protocol Shape { var area: Int { get } }
protocol Named { var name: String { get } }
struct Square: Shape, Named {
  var side: Int
  var area: Int { side * side }
  var name: String { "square" }
}
struct Dot: Shape { var area: Int { 0 } }

actor Tally {
  private(set) var sum = 0
  func add(_ number: Int) { sum += number }
}

@main struct Host {
  static func main() async {
    let tally = Tally()
    let before = await work(tally)
    async let beside = work(tally)
    let status = await Task.detached {
      unsafe host_main(CommandLine.argc, CommandLine.unsafeArgv)
    }.value
    let sums = [before, await beside, await work(tally)]
    if sums != [true, true, true] { print("BROKEN: the runtime of the host") }
    exit(status)
  }

  /// Casts, generics and tasks, as a program does that is no test.
  private static func work(_ tally: Tally) async -> Bool {
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<1_000 { group.addTask { await tally.add(number) } }
    }
    let shapes: [any Shape] = [Square(side: 2), Dot()]
    let names = shapes.map { ($0 as? any Named)?.name ?? "nameless" }
    let keys = Set(names.map(AnyHashable.init))
    return names == ["square", "nameless"] && keys.contains("square")
  }
}
