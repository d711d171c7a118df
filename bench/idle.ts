// The consumption of an idle store: `npm start` with all roles on empty data, after its start. Each round is a fifth of
// a minute.
import { setTimeout as pause } from 'node:timers/promises'
import { withCleanup } from '../test/cleanup.ts'
import { startAsInstalled } from './rig/installed-store.ts'
import { processorSeconds, processTree } from './rig/processor-time.ts'
import { type Row, readOptions } from './row.ts'

const CALM_SECONDS = 15

export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick } = readOptions(args, {})
  const seconds = isQuick ? 5 : 12
  const shares: { store: number; postgres: number }[] = []
  await withCleanup(async (cleanup) => {
    const { pid } = await startAsInstalled(cleanup)
    await pause((isQuick ? 3 : CALM_SECONDS) * 1_000)
    const read = () => ({ own: processTree(pid)[0]?.seconds ?? 0, all: processorSeconds([pid]), atMs: performance.now() })
    for (let round = 0; round < rounds; round++) {
      const before = read()
      await pause(seconds * 1_000)
      const after = read()
      const percent = (used: number) => (used / ((after.atMs - before.atMs) / 1_000)) * 100
      const own = after.own - before.own
      shares.push({ store: percent(own), postgres: percent(after.all - before.all - own) })
    }
  })
  const heldAgainst = `${rounds} × ${seconds} s`
  return [
    {
      work: 'idle store: processor time of store and PostgreSQL',
      goal: { atMost: 0.5 },
      unit: '% of a core',
      rounds: shares.map(({ store, postgres }) => ({ value: store + postgres })),
      note: `${heldAgainst}, from ${CALM_SECONDS} s after its start; the kernel counts in hundredths of a second.`,
    },
    { work: 'idle store: the process of the store', unit: '% of a core', rounds: shares.map(({ store }) => ({ value: store })) },
    { work: 'idle store: PostgreSQL', unit: '% of a core', rounds: shares.map(({ postgres }) => ({ value: postgres })) },
  ]
}
