// json-server as an Express module, with authentication before its router. It
// keeps all animals in memory, so it runs as one process, and rewrites its file
// on every create.

import { hash } from 'node:crypto'
import jsonServer from 'json-server'

const keys = new Map([[process.env.KEY_SHA256, { name: 'till' }]])
const server = jsonServer.create()
server.set('json spaces', 0)

server.use((request, response, next) => {
  const [scheme, key] = (request.headers.authorization ?? '').split(' ')
  if (scheme === 'Bearer' && key && keys.has(hash('sha256', key))) next()
  else response.status(401).json({ message: 'A valid API key is needed.' })
})
server.use('/v1', jsonServer.router(process.env.DATABASE))
server.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('listening'))
