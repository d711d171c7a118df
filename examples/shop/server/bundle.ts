import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build, stop } from 'esbuild'

/** The files that the browser loads. Their names have a hash of the content, so browsers and caches can keep them. */
export interface Bundle {
  script: string
  style: string
  /** The compressed files by path. */
  files: ReadonlyMap<string, { body: Buffer; type: string }>
}

export async function makeBundle(): Promise<Bundle> {
  const { outputFiles } = await build({
    absWorkingDir: fileURLToPath(new URL('..', import.meta.url)),
    entryPoints: { shop: 'browser/main.ts', style: 'shop.css' },
    entryNames: '[name]-[hash]',
    outdir: '.',
    bundle: true,
    write: false,
    minify: true,
    format: 'esm',
    target: 'es2022',
    logLevel: 'silent',
  })
  await stop()
  const files = new Map(
    outputFiles.map(({ path, contents }) => {
      const type = path.endsWith('.css') ? 'text/css; charset=utf-8' : 'text/javascript; charset=utf-8'
      return [`/${basename(path)}`, { body: gzipSync(contents), type }]
    }),
  )
  const find = (ending: string) => [...files.keys()].find((name) => name.endsWith(ending)) ?? ''
  return { script: find('.js'), style: find('.css'), files }
}

/**
 * The answer for a file of another release, whose page a cache or browser still has: a redirect to the current file,
 * or null when the address is not one of a file.
 */
export function answerFormerFile({ files }: Bundle, path: string): { status: number; headers: Record<string, string> } | null {
  const [, name, type] = /^\/(shop|style)-\w+\.(js|css)$/.exec(path) ?? []
  if (name === undefined) return null
  const present = [...files.keys()].find((each) => each.startsWith(`/${name}-`) && each.endsWith(`.${type}`))
  const headers = { 'cache-control': 'no-store', 'cdn-cache-control': 'no-store' }
  return present === undefined ? { status: 404, headers } : { status: 307, headers: { ...headers, location: present } }
}
