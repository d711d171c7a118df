import { hookLakeSteps } from '../faults/lake-hooks.ts'

// Commits, merges or expires in the lake of a folder, and kills itself at a step of lake-hooks.ts.
const [directory = '', work = '', fault = ''] = process.argv.slice(2)
hookLakeSteps((step) => {
  if (step === fault) process.kill(process.pid, 'SIGKILL')
})

const { LocalLakeStore } = await import('../src/lake/local-store.ts')
const { commitEvents } = await import('../src/lake/iceberg/commit-events.ts')
const { compactWithTables } = await import('../src/lake/iceberg/compact-with-tables.ts')
const store = new LocalLakeStore(directory)
if (work === 'commit') await commitEvents(store)
else await compactWithTables({ store, isWanted: () => true, assertAlone: async () => {} })
