// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "subagents",
  dependencies: [.package(name: "perdure", path: "../..")],
  targets: [
    .executableTarget(
      name: "Subagents",
      dependencies: [
        .product(name: "Perdure", package: "perdure"),
        .product(name: "PerdureTestKit", package: "perdure"),
      ]
    )
  ]
)
