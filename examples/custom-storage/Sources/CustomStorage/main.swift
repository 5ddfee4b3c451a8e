import Foundation
import Perdure
import PerdureTestKit

// Every case of the suite, plain and with the store opened again after every commit.
var failures = 0
let cases = StorageConformance.cases + StorageConformance.backendCases
for test in cases {
  for reopens in [false, true] {
    let file = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    defer { try? FileManager.default.removeItem(at: file) }
    do {
      let harness = try await StorageHarness(reopensAfterCommits: reopens) {
        try await DirectStore(try OneFileStorage(file))
      }
      try await test.run(harness)
      await harness.close()
    } catch {
      failures += 1
      print("FAILED: \(test.name)\(reopens ? ", reopened" : ""): \(error)")
    }
  }
}
print("\(cases.count) cases, plain and reopened: \(failures) failed")
exit(failures == 0 ? 0 : 1)
