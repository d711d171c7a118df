import { median } from '../rig/measurement.ts'

/** The median time of `work` as milliseconds, after a tenth of the samples as warm-up. */
export async function medianTime(samples: number, work: (sample: number) => Promise<unknown>): Promise<string> {
  const times: number[] = []
  for (let sample = -samples / 10; sample < samples; sample++) {
    const beganAt = performance.now()
    await work(Math.max(0, sample))
    if (sample >= 0) times.push(performance.now() - beganAt)
  }
  return median(times).toFixed(2)
}
