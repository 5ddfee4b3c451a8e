import Foundation
import PerdurePluginHost
import TestPrograms
import Testing

/// Where the plugin of a test runs.
enum Place: String, Sendable, CaseIterable, CustomTestStringConvertible {
  case inProcess
  case runner

  @TaskLocal static var current = Place.inProcess

  var testDescription: String { rawValue }

  var place: PluginPlace { self == .runner ? .runner : .inProcess }

  /// The program that runs plugins in processes of their own.
  static let program = TestPaths.product("perdure-runner")
}

/// Runs each test of a suite twice: with the plugin in this process, and in one of its own.
struct BothPlaces: SuiteTrait, TestTrait, TestScoping {
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test,
    testCase: Test.Case?,
    performing function: @concurrent @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await function() }
    for place in Place.allCases {
      await Place.$current.withValue(place) {
        do { try await function() } catch {
          Issue.record(error, "with the plugin in the place '\(place)'")
        }
      }
    }
  }
}

extension Trait where Self == BothPlaces {
  /// Runs each test twice: in process and in the runner.
  static var bothPlaces: Self { BothPlaces() }
}
