import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { mergeMetrics } from './merge-metrics.ts'
import { Metrics } from './metrics.ts'

const seriesOf = (text: string) => text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))

test("contains each process's series once, with its number, and one heading for each metric", async () => {
  const [first, second] = [1, 2].map(() => new Metrics(pino({ level: 'silent' })))
  if (first === undefined || second === undefined) throw new Error('there are two')
  for (const metrics of [first, second]) metrics.collectProcess()
  first.requestAnswered('GET', '/a"b\\', 200, 3)
  first.ordersTried(3)
  second.ordersTried(200)
  second.setRoles(['email'], ['api', 'email'])
  const values = await Promise.all([first, second].map(async (metrics, index) => ({ process: index + 1, metrics: await metrics.values() })))
  const merged = await mergeMetrics(structuredClone(values))
  // A second reading differs only in the process's own metrics.
  const own = (line: string) => line.startsWith('storefront_')
  const labelled = (text: string, process: number) =>
    seriesOf(text)
      .filter(own)
      .map((line) =>
        line.replace(
          /^(\w+)(?:\{(.*)\})? /,
          (_, name, labels) => `${name}{${labels === undefined ? '' : `${labels},`}process="${process}"} `,
        ),
      )
  const expected = [...labelled(await first.text(), 1), ...labelled(await second.text(), 2)]
  assert.deepEqual(seriesOf(merged).filter(own).toSorted(), expected.toSorted())
  assert.equal(seriesOf(merged).filter((line) => line.startsWith('process_start_time_seconds{')).length, 2)
  const headings = merged.split('\n').filter((line) => line.startsWith('# TYPE'))
  assert.equal(new Set(headings).size, headings.length)
})

test('reading the values twice changes no label', async () => {
  const metrics = new Metrics(pino({ level: 'silent' }))
  metrics.orderRefused('insufficient_stock')
  await mergeMetrics([{ process: 1, metrics: await metrics.values() }])
  assert.match(await metrics.text(), /^storefront_orders_refused_total\{code="insufficient_stock"\} 1$/m)
})

test('a process that does not answer is down, and the others are up', async () => {
  const metrics = await new Metrics(pino({ level: 'silent' })).values()
  const processes = [metrics, null, metrics].map((each, index) => ({ process: index + 1, metrics: each }))
  const up = (text: string) => seriesOf(text).filter((line) => line.startsWith('storefront_process_up'))
  const expected = [1, 0, 1].map((value, index) => `storefront_process_up{process="${index + 1}"} ${value}`)
  assert.deepEqual(up(await mergeMetrics(processes)).toSorted(), expected)
  assert.deepEqual(up(await mergeMetrics(processes.toReversed())).toSorted(), expected)
})
