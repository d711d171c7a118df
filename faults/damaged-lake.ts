import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { listLake } from '../src/lake/list-files.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { farFromMidnight } from '../test/midnight.ts'
import type { Fault } from './fault.ts'
import type { Round } from './round.ts'

const FILES = 5
const STEPS = ['before link', 'after link', 'before metadata', 'after metadata']

/** Lake files with a flipped bit, truncated or deleted, and a repair that dies. */
export const DAMAGED_LAKE_FAULT: Fault = {
  name: 'lake-damaged',
  title: 'lake files with a flipped bit, cut off, and deleted; kill -9 of lake repair around a step, twice, beside the writer',
  async run(round, orders) {
    await round.survive('stream,email,lake')
    await farFromMidnight()
    for (let file = 0; file < FILES; file++) {
      await round.shop.trade(Math.ceil(orders / FILES))
      await round.drain()
    }
    const start = Math.floor(round.random() * STEPS.length)
    for (const index of [start, start + 1]) {
      await damageFiles(round)
      if ((await round.verify()).findings.length === 0) throw new Error('storefront verify has found no damage')
      const dying = round.repair({ FAULT: STEPS[index % STEPS.length] ?? '' })
      await Promise.all([dying.ended, round.shop.trade(1)])
      if (dying.child.signalCode !== 'SIGKILL') throw new Error(`the repair was over before it died ${STEPS[index % STEPS.length]}`)
    }
    await Promise.all([round.repair().ended, round.repair().ended])
    await round.repair().ended
    await round.shop.trade(3)
  },
}

/** In the newest snapshot, flips a random bit of one file, truncates another at a random place, and deletes a third. */
async function damageFiles(round: Round): Promise<void> {
  const files = await listLake(new LocalLakeStore(round.lake))
  const paths = files.map(({ name }) => join(round.lake, name)).sort(() => round.random() - 0.5)
  const [flipped = '', cut = '', deleted = ''] = paths
  const bytes = readFileSync(flipped)
  const offset = Math.floor(round.random() * bytes.length)
  bytes[offset] = (bytes[offset] ?? 0) ^ (1 << Math.floor(round.random() * 8))
  writeFileSync(flipped, bytes)
  truncateSync(cut, Math.floor(round.random() * readFileSync(cut).length))
  rmSync(deleted)
}
