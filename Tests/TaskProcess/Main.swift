import Glibc
import Perdure

/// Tasks of every kind on the threads that a program has of its own.
///
///     TaskProcess mixed     tasks of all priorities that use actors, sleep and yield; prints the sums
///     TaskProcess blocked   more blocked tasks than cores, and one behind them that releases them
///     TaskProcess nested    children that wait for children; prints the sum
///     TaskProcess escalate  one of high priority waits for one of low priority; prints its value
@main
enum Main {
  private actor Counter {
    private(set) var count = 0

    func add(also other: Counter?) async {
      count += 1
      await other?.add(also: nil)
    }
  }

  @MainActor private static var mainCount = 0

  static func main() async {
    HostExecutor.install()
    await program()
  }

  @concurrent
  private static func program() async {
    switch CommandLine.arguments.last {
    case "mixed": await mixed(1_000)
    case "blocked": await blocked(8)
    case "nested": print(await leaves(12))
    case "escalate": await escalate()
    default: exit(2)
    }
  }

  private static func mixed(_ count: Int) async {
    let first = Counter()
    let second = Counter()
    await withTaskGroup { group in
      for number in 0..<count {
        let priorities: [TaskPriority?] = [.high, nil, .background]
        group.addTask(priority: priorities[number % 3]) {
          await first.add(also: second)
          if number % 5 == 0 { try? await Task.sleep(nanoseconds: UInt64(number) * 1_000) }
          if number % 7 == 0 { await Task.yield() }
          await countOnMain()
          await second.add(also: first)
        }
      }
    }
    print(await first.count, await second.count, await mainCount)
  }

  @MainActor private static func countOnMain() { mainCount += 1 }

  /// Tasks should not block; but if a plugin's or the disk's fault makes them, the rest goes on.
  private static func blocked(_ more: Int) async {
    var ends: [Int32] = [0, 0]
    guard unsafe pipe(&ends) == 0 else { exit(1) }
    let (input, output) = (ends[0], ends[1])
    let count = sysconf(Int32(_SC_NPROCESSORS_ONLN)) + more
    let blocked = (0..<min(count, 40)).map { _ in
      Task.detached {
        var byte: UInt8 = 0
        return unsafe read(input, &byte, 1)
      }
    }
    let release = Task.detached {
      for _ in blocked {
        var byte: UInt8 = 1
        unsafe _ = write(output, &byte, 1)
      }
    }
    await release.value
    var sum = 0
    for task in blocked { sum += await task.value }
    print(sum == blocked.count ? "released" : "lost")
  }

  private static func leaves(_ depth: Int) async -> Int {
    guard depth > 0 else { return 1 }
    async let left = leaves(depth - 1)
    async let right = leaves(depth - 1)
    return await left + right
  }

  private static func escalate() async {
    let low = Task.detached(priority: .background) {
      for _ in 0..<100 { await Task.yield() }
      return 7
    }
    print(await Task.detached(priority: .high) { await low.value }.value)
  }
}
