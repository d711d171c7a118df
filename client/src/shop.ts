import type { paths as allPaths } from './schema.ts'

export type { components, operations } from './schema.ts'

type OfOperators = `/admin/${string}` | `/iceberg/${string}` | '/livez' | '/readyz'
/** The operations that shops' pages use. */
export type paths = { [Path in keyof allPaths as Path extends OfOperators ? never : Path]: allPaths[Path] }
