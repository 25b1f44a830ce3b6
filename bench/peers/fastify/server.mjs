// Fastify over better-sqlite3: one process per core, each with its own
// connection, and one commit per create.

import cluster from 'node:cluster'
import { hash } from 'node:crypto'
import Database from 'better-sqlite3'
import Fastify from 'fastify'

if (cluster.isPrimary) {
  for (let worker = 0; worker < Number(process.env.WORKERS); worker++) cluster.fork()
  cluster.on('exit', () => process.exit(1))
} else {
  await serve()
}

async function serve () {
  const keys = new Map([[process.env.KEY_SHA256, { name: 'till' }]])
  const pets = openPets(process.env.DATABASE)
  const app = Fastify({ logger: false })

  app.addHook('onRequest', async (request, reply) => {
    const [scheme, key] = (request.headers.authorization ?? '').split(' ')
    if (scheme !== 'Bearer' || !key || !keys.has(hash('sha256', key))) {
      return reply.code(401).send({ message: 'A valid API key is needed.' })
    }
  })

  const status = { type: 'string', enum: ['available', 'pending', 'sold'] }
  const newPet = {
    type: 'object',
    required: ['name', 'categoryId'],
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 255 },
      categoryId: { type: 'integer' },
      status
    }
  }
  const pet = {
    type: 'object',
    required: ['id', 'name', 'categoryId'],
    properties: { id: { type: 'integer' }, ...newPet.properties }
  }
  const query = {
    type: 'object',
    properties: {
      limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
      after: { type: 'integer', minimum: 0, default: 0 },
      status
    }
  }
  const params = { type: 'object', properties: { id: { type: 'integer' } } }

  app.get('/v1/pets', {
    schema: { querystring: query, response: { 200: { type: 'array', items: pet } } }
  }, (request, reply) => {
    reply.send(pets.list(request.query))
  })

  app.get('/v1/pets/:id', { schema: { params, response: { 200: pet } } }, (request, reply) => {
    const found = pets.get(request.params.id)
    if (found) reply.send(found)
    else reply.code(404).send({ message: 'There is no such animal.' })
  })

  app.post('/v1/pets', { schema: { body: newPet, response: { 201: pet } } }, (request, reply) => {
    reply.code(201).send(pets.create(request.body))
  })

  await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) })
  console.log('listening')
}

function openPets (file) {
  const db = new Database(file, { timeout: 10_000 })
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL') // better-sqlite3 is built with NORMAL for WAL.

  const columns = 'SELECT id, name, categoryId, status FROM pets'
  const all = db.prepare(`${columns} WHERE id > ? ORDER BY id LIMIT ?`)
  const filtered = db.prepare(`${columns} WHERE status = ? AND id > ? ORDER BY id LIMIT ?`)
  const one = db.prepare(`${columns} WHERE id = ?`)
  const insert = db.prepare('INSERT INTO pets (name, categoryId, status) VALUES (?, ?, ?)')

  return {
    list: ({ status, after, limit }) =>
      status ? filtered.all(status, after, limit) : all.all(after, limit),
    get: id => one.get(id),
    create ({ name, categoryId, status }) {
      const { lastInsertRowid } = insert.run(name, categoryId, status ?? null)
      return { id: lastInsertRowid, name, categoryId, status }
    }
  }
}
