import { measureStalls } from './measure-stalls.ts'

// A separate process: the test runner's hooks on promises take more time in each turn than the requests themselves.
const [only = '.'] = process.argv.slice(2)
const cleanups: (() => Promise<void> | void)[] = []
try {
  await measureStalls(
    { after: (work) => void cleanups.push(work) },
    { only: new RegExp(only), onRoute: (stalls) => console.log(JSON.stringify(stalls)) },
  )
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup()
}
