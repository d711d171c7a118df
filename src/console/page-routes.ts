import { createRequire } from 'node:module'
import { type SharedFile, servePage } from '../http/browser-page.ts'
import type { HttpServer } from '../http/http-server.ts'

const { resolve } = createRequire(import.meta.url)
/** Pure files of the program that the page runs, too. */
const ofProgram = (path: string): SharedFile => {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return { name, file: new URL(path, import.meta.url), specifier: `#${name.slice(0, -'.ts'.length)}` }
}
const SHARED: readonly SharedFile[] = [
  ...['../currency.ts', '../orders/order-status.ts', '../catalogue/product-rules.ts', '../http/scopes.ts'].map(ofProgram),
  ...['../shop-time.ts', '../spreadsheet-guard.ts', '../subscribers.ts'].map(ofProgram),
  { name: 'uplot.js', file: resolve('uplot').replace('uPlot.cjs.js', 'uPlot.esm.js'), specifier: 'uplot' },
  { name: 'uqr.js', file: resolve('uqr').replace('index.cjs', 'index.mjs'), specifier: 'uqr' },
  { name: 'uplot.css', file: resolve('uplot/dist/uPlot.min.css') },
]

/** `GET /console`: the page for operators. Its inline styles are those of mails, in frames without scripts. */
export function consolePageRoutes(server: HttpServer): void {
  servePage(server, {
    path: '/console',
    folder: new URL('page/', import.meta.url),
    shared: SHARED,
    // Images of products are where the shop keeps them.
    policy: ["style-src 'self' 'unsafe-inline'", "frame-src 'self'", "img-src 'self' https: data:"],
  })
}
