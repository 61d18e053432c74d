from mutirao import Mutirao
app=Mutirao("sqlite:///w8.db"); t=app.topic("a")
