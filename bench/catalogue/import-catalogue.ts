import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Cleanup } from '../../test/cleanup.ts'
import { runStorefront } from '../../test/store-process.ts'
import type { Store } from '../rig/store.ts'

const GENERATOR = fileURLToPath(new URL('../generate-products.ts', import.meta.url))

/** Imports a generated catalogue of this size with `storefront catalogue import`. */
export async function importCatalogue(cleanup: Cleanup, store: Store, products: number): Promise<void> {
  const file = join(store.dataDir, 'products.ndjson')
  const output = openSync(file, 'w')
  const [code] = await once(spawn(process.execPath, [GENERATOR, String(products)], { stdio: ['ignore', output, 'inherit'] }), 'exit')
  closeSync(output)
  if (code !== 0) throw new Error(`products were not generated: ${code}`)
  const { status, stderr } = await runStorefront(cleanup, ['catalogue', 'import', file], { env: store.settings })
  rmSync(file)
  if (status !== 0) throw new Error(`the import ended with ${status}: ${stderr}`)
  await store.pool.query('vacuum analyze products, product_slugs, product_categories, inventory')
}
