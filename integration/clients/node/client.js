// kafkajs's part of the black-box tests; see README.md of the folder above. It has gzip itself, snappy and zstd by
// packages; no lz4 package of it does without a compiler.
'use strict'
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const Snappy = require('kafkajs-snappy')
const zstd = require('@bokuweb/zstd-wasm')

const { BOOTSTRAP, NAME, COLD_TOPIC } = process.env
const COLD_COUNT = Number(process.env.COLD_COUNT)
const COLD_MS = Number(process.env.COLD_MS)
const LIMIT = 120_000

CompressionCodecs[CompressionTypes.Snappy] = Snappy
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
})
const codecs = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, zstd: CompressionTypes.ZSTD,
}
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [BOOTSTRAP], logLevel: logLevel.NOTHING, retry: { retries: 5 },
  connectionTimeout: 30_000, requestTimeout: 60_000 })

function check(holds, what) {
  if (!holds) throw new Error(what)
}

async function until(what, condition) {
  const end = Date.now() + LIMIT
  while (!condition()) {
    check(Date.now() < end, `${what}: not in time`)
    await new Promise((wake) => setTimeout(wake, 20))
  }
}

async function fill(topic, compression, count) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const messages = []
  for (let i = 0; i < count; i++) messages.push({ key: `k${i}`, value: `v${i}`.padEnd(200) })
  await producer.send({ topic, compression, acks: -1, messages })
  await producer.disconnect()
}

// read gives count messages of partition 0 from an offset on. kafkajs reads in groups only.
async function read(topic, from, count) {
  const consumer = kafka.consumer({ groupId: `${NAME}-read-${topic}-${from}`, maxWaitTimeInMs: 200, heartbeatInterval: 300 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const got = []
  await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => { got.push(message) } })
  if (from > 0) consumer.seek({ topic, partition: 0, offset: String(from) })
  const wanted = () => got.filter((m) => Number(m.offset) >= from)
  await until(`${topic} from ${from}`, () => wanted().length >= count)
  await consumer.disconnect()
  return wanted().slice(0, count)
}

async function codec(admin, name) {
  const topic = `${NAME}-${name}`
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
  await fill(topic, codecs[name], 100)
  const got = await read(topic, 0, 100)
  got.forEach((m, i) => check(Number(m.offset) === i && m.key.toString() === `k${i}` && m.value.toString().trim() === `v${i}`,
    `${topic}: message ${i} is ${m.offset} ${m.key}`))
}

async function member(topic, seen) {
  const consumer = kafka.consumer({ groupId: `${NAME}-g`, maxWaitTimeInMs: 200, heartbeatInterval: 300, sessionTimeout: 30_000 })
  const m = { consumer, share: [] }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { m.share = payload.memberAssignment[topic] || [] })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message }) => {
      const key = message.key.toString()
      seen.set(key, (seen.get(key) || 0) + 1)
    },
  })
  return m
}

async function group(admin) {
  const topic = `${NAME}-group`
  await admin.createTopics({ topics: [{ topic, numPartitions: 4 }] })
  const seen = new Map()
  const a = await member(topic, seen)
  const b = await member(topic, seen)
  await until('two shares', () => a.share.length === 2 && b.share.length === 2)
  await fill(topic, CompressionTypes.None, 200)
  await until('all records of the group', () => seen.size === 200)
  check([...seen.values()].every((n) => n === 1), 'a record came twice')
  await b.consumer.disconnect()
  await until('the share of the one that stayed', () => a.share.length === 4)
  await a.consumer.disconnect()
  const [{ partitions }] = await admin.fetchOffsets({ groupId: `${NAME}-g`, topics: [topic] })
  check(partitions.reduce((sum, p) => sum + Number(p.offset), 0) === 200, `committed ${JSON.stringify(partitions)}`)
}

async function time(admin) {
  const at = Math.floor(COLD_COUNT / 3)
  const [found] = await admin.fetchTopicOffsetsByTimestamp(COLD_TOPIC, COLD_MS + 1000 * at - 500)
  check(Number(found.offset) === at, `time lookup gives ${JSON.stringify(found)}`)
  const [m] = await read(COLD_TOPIC, at, 1)
  check(Number(m.offset) === at && m.value.toString().trim() === `cold-${String(at).padStart(6, '0')}`, 'seek by time')
}

async function cold() {
  const got = await read(COLD_TOPIC, 0, COLD_COUNT)
  got.forEach((m, i) => check(Number(m.offset) === i && m.value.toString().trim() === `cold-${String(i).padStart(6, '0')}` &&
    Number(m.timestamp) === COLD_MS + 1000 * i, `cold message ${i} is ${m.offset}`))
}

async function retention(admin, topic) {
  const { resources } = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['retention.ms'] }] })
  return resources[0].configEntries.find((e) => e.configName === 'retention.ms').configValue
}

async function administer(admin) {
  const topic = `${NAME}-admin`
  await admin.createTopics({ topics: [{ topic, numPartitions: 3, configEntries: [{ name: 'retention.ms', value: '86400000' }] }] })
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  check(topics[0].partitions.length === 3, 'partitions')
  check((await retention(admin, topic)) === '86400000', 'retention.ms after creation')
  await admin.alterConfigs({
    validateOnly: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '3600000' }] }],
  })
  check((await retention(admin, topic)) === '3600000', 'retention.ms after the change')
  await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
  const cluster = await admin.describeCluster()
  check(cluster.brokers.length === 1, 'brokers')

  await admin.deleteTopicRecords({ topic: `${NAME}-none`, partitions: [{ partition: 0, offset: '50' }] })
  const [offsets] = await admin.fetchTopicOffsets(`${NAME}-none`)
  check(offsets.low === '50' && offsets.high === '100', `offsets after deletion ${JSON.stringify(offsets)}`)

  check((await admin.listGroups()).groups.some((g) => g.groupId === `${NAME}-g`), 'the group is not listed')
  await admin.describeGroups([`${NAME}-g`])
  await admin.deleteGroups([`${NAME}-g`])
  check(!(await admin.listGroups()).groups.some((g) => g.groupId === `${NAME}-g`), 'the group is still listed')
  await admin.deleteTopics({ topics: [topic] })
  check(!(await admin.listTopics()).includes(topic), 'the deleted topic is listed')
}

async function main() {
  await zstd.init()
  const admin = kafka.admin()
  await admin.connect()
  for (const name of Object.keys(codecs)) await codec(admin, name)
  await group(admin)
  await time(admin)
  await cold()
  await administer(admin)
  await admin.disconnect()
}

main().then(() => process.exit(0), (err) => {
  console.error(err)
  process.exit(1)
})
