import { isInShare } from '../share.ts'
import { measureStalls } from './measure-stalls.ts'

// A separate process: the test runner's hooks on promises take more time in each turn than the requests themselves.
const only = process.env.STALL_ROUTES
const cleanups: (() => Promise<void> | void)[] = []
try {
  await measureStalls(
    { after: (work) => void cleanups.push(work) },
    {
      only: (route, index) => (only === undefined ? isInShare(index) : new RegExp(only).test(route)),
      onRoute: (stalls) => console.log(JSON.stringify(stalls)),
    },
  )
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup()
}
