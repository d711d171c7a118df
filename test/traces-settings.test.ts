import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig, readEnvironment } from '../src/config.ts'

test('sends no traces unless an endpoint or the exporter is set', () => {
  const isOn = (settings: NodeJS.ProcessEnv) => readConfig(settings).traces !== null
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }
  assert.deepEqual([{}, { OTEL_TRACES_SAMPLER: 'always_on', OTEL_SERVICE_NAME: 'shop' }, { OTEL_TRACES_EXPORTER: 'none' }].map(isOn), [
    false,
    false,
    false,
  ])
  assert.deepEqual(
    [endpoint, { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318' }, { OTEL_TRACES_EXPORTER: 'otlp' }].map(isOn),
    [true, true, true],
  )
  assert.deepEqual(
    [
      { ...endpoint, OTEL_TRACES_EXPORTER: 'none' },
      { ...endpoint, OTEL_SDK_DISABLED: 'true' },
      { ...endpoint, OTEL_SDK_DISABLED: 'false' },
    ].map(isOn),
    [false, false, true],
  )
})

test("reads OpenTelemetry's settings: those for traces come first, and the path is added to the general address only", () => {
  const of = (settings: Record<string, string>) => readConfig({ OTEL_TRACES_EXPORTER: 'otlp', ...settings }).traces ?? assert.fail('off')
  const defaults = of({})
  assert.deepEqual(
    [defaults.url, defaults.protocol, defaults.serviceName],
    ['http://localhost:4318/v1/traces', 'http/protobuf', 'storefront'],
  )
  assert.deepEqual([defaults.headers, defaults.compression, defaults.timeoutMs, defaults.caFile], [{}, 'none', 10_000, null])
  assert.deepEqual([defaults.sampler, defaults.ratio, defaults.attributes], ['parentbased_always_on', 1, {}])
  assert.deepEqual(defaults.batch, { delayMs: 5_000, timeoutMs: 30_000, maxQueue: 2_048, maxSpans: 512 })
  for (const [given, url] of [
    ['https://otel.example', 'https://otel.example/v1/traces'],
    ['https://otel.example/api/otlp/', 'https://otel.example/api/otlp/v1/traces'],
    ['https://otel.example/otlp?team=a', 'https://otel.example/otlp/v1/traces?team=a'],
  ] as const)
    assert.equal(of({ OTEL_EXPORTER_OTLP_ENDPOINT: given }).url, url)
  const chosen = of({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'https://otel.example',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://traces.example/here',
    OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%2Cb, x-team = shop',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'api-key=c=',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_TIMEOUT: '5000',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_EXPORTER_OTLP_CERTIFICATE: '/etc/ca.pem',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment.name=live%20one',
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '.25',
  })
  assert.deepEqual([chosen.url, chosen.headers], ['https://traces.example/here', { 'api-key': 'c=', 'x-team': 'shop' }])
  assert.deepEqual([chosen.protocol, chosen.timeoutMs, chosen.compression, chosen.caFile], ['http/json', 5_000, 'gzip', '/etc/ca.pem'])
  assert.deepEqual([chosen.serviceName, chosen.attributes['deployment.environment.name'], chosen.ratio], ['other', 'live one', 0.25])
})

test("refuses values of OpenTelemetry's settings that it cannot follow, and shows no header", () => {
  for (const [name, values] of Object.entries({
    OTEL_TRACES_EXPORTER: ['console', 'otlp,console', 'zipkin'],
    OTEL_EXPORTER_OTLP_ENDPOINT: ['collector:4317', 'grpc://collector', 'unix:/run/otel'],
    OTEL_EXPORTER_OTLP_PROTOCOL: ['grpc', 'HTTP/JSON'],
    OTEL_TRACES_SAMPLER: ['jaeger_remote', 'traceidratio=1'],
    OTEL_TRACES_SAMPLER_ARG: ['1.1', '-0.1', '10%', 'NaN', '', '1e'].filter(Boolean),
    OTEL_EXPORTER_OTLP_HEADERS: ['hunter2', 'a=b,hunter2', 'hunter2%zz=1', 'a b=hunter2', 'a=hunter2%0d%0aX: y', '=hunter2'],
    OTEL_RESOURCE_ATTRIBUTES: ['shop', 'a=%', '=b'],
    OTEL_BSP_MAX_QUEUE_SIZE: ['0', '65537', 'x'],
    OTEL_EXPORTER_OTLP_TIMEOUT: ['0', '1.5'],
    OTEL_SDK_DISABLED: ['yes'],
  }))
    for (const value of values) {
      const { problems } = readEnvironment({ [name]: value })
      assert.equal(problems.length, 1, `${name}=${value}`)
      assert.match(problems[0] ?? '', new RegExp(`^${name} must be `))
      assert.ok(!problems[0]?.includes('hunter2'))
    }
  const sizes = { OTEL_BSP_MAX_QUEUE_SIZE: '10', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '11' }
  assert.deepEqual(readEnvironment(sizes).problems, ['OTEL_BSP_MAX_EXPORT_BATCH_SIZE must not be greater than OTEL_BSP_MAX_QUEUE_SIZE'])
})
