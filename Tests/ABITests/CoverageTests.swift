import Foundation
import PerdurePluginHost
import Testing

/// The documentation of operations and the table that serves them.
struct CoverageTests {
  private static let page = Fixtures.root.appending(
    path: "Sources/Perdure/Perdure.docc/PluginOperations.md"
  )

  private static func lines() throws -> Set<String> {
    Set(try String(contentsOf: page, encoding: .utf8).split(separator: "\n").map(String.init))
  }

  @Test(arguments: OperationListing.all.map(\.name))
  func `the documentation has the line of every operation`(name: String) throws {
    let listing = try #require(OperationListing.all.first { $0.name == name })
    #expect(try Self.lines().contains(listing.line), "add: \(listing.line)")
  }

  @Test func `the documentation has no operation that nobody serves`() throws {
    let served = Set(OperationListing.all.map(\.line))
    let documented = try Self.lines().filter { line in
      line.hasPrefix("| `") && line.count { $0 == "|" } == 4
    }
    for line in documented { #expect(served.contains(line), "\(line)") }
  }

  @Test(arguments: OperationCoverage.all.map(\.line))
  func `the documentation has the line of every member of the Swift interface`(
    line: String
  ) throws {
    #expect(try Self.lines().contains(line), "add: \(line)")
  }

  /// What plugins must be able to reach, one word of each.
  private static let members = [
    "TaskRun.id", "input", "isCancelled", "now", "report", "commit", "memo", "conversation",
    "submit", "abort", "waitForIdle", "wait", "status", "task", "waitForTask", "outcomes", "entry",
    "context", "value(_:of:key:)", "asOf:", "changes(of:)", "sleep(until:at:)", "ownedTasks",
    "abortOwned", "hooks of task types", "settings", "extensions", "agent", "models",
    "environment", "callId", "output", "details", "diagnostic", "retainedOutput", "createTask",
    "executeTool", "tools", "HookContext", "Transaction", "latestHeadMarker",
    "createConversation", "forkConversation", "configure", "append", "update", "retire", "inbox",
    "Wrap", "PromptInput", "initial", "Phase", "migration", "checkpointWhen", "prepareArguments",
    "conversationCreated",
  ]

  @Test(arguments: members)
  func `the table names every member of the Swift interface`(member: String) {
    #expect(OperationCoverage.all.contains { $0.member.contains(member) })
  }

  @Test func `every operation in the table of members is served`() {
    let served = Set(OperationListing.all.map(\.name))
    for message in OperationCoverage.all.flatMap(\.messages)
    where message.contains(".") && !message.contains(":") && !message.hasPrefix("ctx.") {
      #expect(served.contains(message), "\(message)")
    }
  }
}
