import type { Config } from '../config.ts'
import { connectionsOf } from './pool-sizes.ts'

/**
 * The settings of each process. With two or more processes, the pipeline has its own, so its work delays no request.
 */
export function processConfigs(config: Config): [Config, ...Config[]] {
  const { webConcurrency } = config
  if (webConcurrency === 1 || !config.roles.includes('api')) return [{ ...config, webConcurrency: 1 }]
  const pipeline = config.roles.filter((role) => role !== 'api')
  const pipelines = pipeline.length === 0 ? [] : [{ ...config, roles: pipeline, webConcurrency: 1 }]
  const apis = webConcurrency - pipelines.length
  const api: Config = { ...config, roles: ['api'], webConcurrency: apis }
  const others = [...Array.from({ length: apis - 1 }, () => api), ...pipelines]
  // The first process shows the metrics and the state of all processes.
  return [api, ...others.map((each) => ({ ...each, operations: null }))]
}

/** The most database connections of all processes of a start. */
export function connectionsOfStart(config: Config): number {
  return processConfigs(config).reduce((sum, each) => sum + connectionsOf(each), 0)
}
