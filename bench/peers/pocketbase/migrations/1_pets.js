// The collection of animals, one user with access to it, and no request log.
// `pocketbase migrate up` runs this once on a new database.

migrate(app => {
  const signedIn = '@request.auth.id != ""'
  app.save(new Collection({
    type: 'base',
    name: 'pets',
    listRule: signedIn,
    viewRule: signedIn,
    createRule: signedIn,
    fields: [
      { type: 'text', name: 'name', required: true, max: 255 },
      { type: 'number', name: 'categoryId', onlyInt: true },
      { type: 'select', name: 'status', values: ['available', 'pending', 'sold'], maxSelect: 1 }
    ],
    indexes: ['CREATE INDEX pets_by_status ON pets (status, id)']
  }))

  const user = new Record(app.findCollectionByNameOrId('users'))
  user.setEmail(process.env.USER_EMAIL)
  user.setPassword(process.env.USER_PASSWORD)
  user.setVerified(true)
  app.save(user)

  const settings = app.settings()
  settings.logs.maxDays = 0
  app.save(settings)
})
