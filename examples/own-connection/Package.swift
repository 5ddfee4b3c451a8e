// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "own-connection",
  dependencies: [.package(name: "perdure", path: "../..")],
  targets: [
    .systemLibrary(
      name: "CAppSQLite",
      path: "Sources/CAppSQLite",
      pkgConfig: "sqlite3",
      providers: [.apt(["libsqlite3-dev"])]
    ),
    .executableTarget(
      name: "OwnConnection",
      dependencies: [
        "CAppSQLite",
        .product(name: "Perdure", package: "perdure"),
        .product(name: "PerdureTestKit", package: "perdure"),
      ]
    ),
  ]
)
