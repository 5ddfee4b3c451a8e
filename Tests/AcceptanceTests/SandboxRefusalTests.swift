import Foundation
import PerdureValue
import Testing

/// What is refused, or confines nothing, on any machine.
@Suite struct SandboxRefusalTests: SandboxRuns {
  let folder = Folder()

  @Test func `none confines nothing, and says so`() {
    let finished = bash("cat \(folder.file("secret"))", ["--sandbox", "none"])
    #expect(finished.status == 0)
    #expect(results(finished).contains("canary"))
    let header = finished.events.first?["environment"]
    #expect(header?["tier"] == "none")
    #expect(header?["commands"]?.text?.contains("unconfined") == true)
  }

  @Test func `without a launcher nothing runs, and the error has the remedy`() {
    let missing = folder.file("no-launcher")
    let finished = bash("echo x > made", environment: ["PERDURE_SANDBOX": missing])
    #expect(finished.status == 3)
    let error = finished.events.last?["error"]?.compactText ?? ""
    #expect(error.contains(missing))
    #expect(error.contains("perdure doctor sandbox"))
    #expect(error.contains("--sandbox none"))
    #expect(!folder.has("work/made"))
  }

  @Test(arguments: [
    (["--network", "allow="], "--network cannot be 'allow='"),
    (["--network", "on"], "--network cannot be 'on'"),
    (["--sandbox", "none", "--network", "off"], "says nothing with --sandbox none"),
    (["--hide", "../x"], "--hide cannot be '../x'"),
    (["--sandbox", "weak"], "--sandbox cannot be 'weak'"),
  ])
  func `options that cannot be are refused`(options: [String], part: String) {
    let finished = bash("true", options)
    #expect(finished.status == 2)
    #expect(finished.output.contains(part), "\(finished.output)")
  }

  @Test func `options of a sandbox need a folder`() {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    let finished = Program.run(
      ["run", "--store", folder.file("s"), "--faux", script, "--sandbox", "full", "Hi"],
      in: folder
    )
    #expect(finished.status == 2)
    #expect(finished.error.contains("give --cwd DIR"))
  }

  @Test func `the doctor without a launcher says where it looked`() {
    let missing = folder.file("no-launcher")
    let finished = Program.run(
      ["doctor", "sandbox"],
      in: folder,
      environment: ["PERDURE_SANDBOX": missing]
    )
    #expect(finished.status == 3)
    #expect(finished.error.contains(missing))
  }

  @Test(arguments: [
    ["--store", "work/s.sqlite"], ["--store", "work/s/"], ["--plugins", "work/p"],
  ])
  func `what the host trusts is not where the model writes`(options: [String]) {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    try? FileManager.default.createDirectory(
      atPath: folder.file("work/p"),
      withIntermediateDirectories: true
    )
    let place = folder.file(options[1])
    let store = options[0] == "--store" ? [] : ["--store", folder.file("s.sqlite")]
    let words = ["run", "--faux", script, "--cwd", folder.file("work"), options[0], place] + store
    let refused = Program.run(words + ["Hi"], in: folder)
    #expect(refused.status == 3)
    #expect(refused.error.contains("lies where the model may write"))
    #expect(!folder.has("work/s.sqlite") && !folder.has("work/s"))
  }
}
