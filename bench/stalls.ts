import { globalSetup, globalTeardown } from '../test/global-setup.ts'
import { measureStalls, type RouteStalls } from '../test/stalls/measure-stalls.ts'

const UNLIMITED_BYTES = Number.MAX_SAFE_INTEGER

/**
 * Prints a table of each route's worst block of the event loop by a request within the limits. The argument is a
 * pattern for routes to measure, such as 'POST /orders'.
 */
export async function run([only = '.']: string[]): Promise<void> {
  const cleanups: (() => Promise<void> | void)[] = []
  await globalSetup()
  try {
    console.log('| Route | Body limit | Requests | Longest stall | By |\n|---|---|---|---|---|')
    const onRoute = (stalls: RouteStalls) => console.log(toRow(stalls))
    const pattern = new RegExp(only)
    const options = { only: (route: string) => pattern.test(route), isThorough: true, onRoute }
    await measureStalls({ after: (work) => void cleanups.push(work) }, options)
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup()
    await globalTeardown()
  }
}

function toRow({ route, bodyLimitBytes, requests, stallMs, worst }: RouteStalls): string {
  const takesBody = !/^(GET|HEAD) /.test(route)
  const limit = bodyLimitBytes === UNLIMITED_BYTES ? 'by line' : takesBody ? `${bodyLimitBytes / 1024} KiB` : ''
  return `| \`${route}\` | ${limit} | ${requests} | ${stallMs.toFixed(1)} ms | ${worst.replaceAll('|', '\\|')} |`
}
